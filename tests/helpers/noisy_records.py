"""Run records of a noisy machine: the launcher assembles them from parts of ranks whose times scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from record import rounds as in_rounds
from record.parts import JobEnd, RankPart, assemble
from record.schema import CoreUse, RunRecord, Window
from tests.helpers.run_records import WEAK, make_record, make_rounds

CYCLE_S = 0.02
_STARTED_AT = 1_764_000_000.0
Rng = np.random.Generator


def _scattered(rng: Rng, least_s: float, noise: float = 0.03) -> float:
    """Return a random time that is at least `least_s`, and longer by the share `noise` on average."""
    return float(least_s * (1 + rng.exponential(noise)))


def _steps(rng: Rng, ranks: int, count: int, step_s: float) -> list[list[float]]:
    """Return the step times of each rank. Ranks wait for each other in each step, and end it within 0.1 ms."""
    common_s = [_scattered(rng, step_s) for _ in range(count)]
    return [[time_s + float(rng.uniform(0, 1e-4)) for time_s in common_s] for _ in range(ranks)]


def _computing(rng: Rng, steps: Sequence[float]) -> list[float]:
    return [time_s * float(rng.uniform(0.8, 0.95)) for time_s in steps]


def _window_times(rng: Rng, rank_steps: Sequence[Sequence[float]], cycles: float = 1.7) -> list[float]:
    """Return the time between the barriers for each rank: the slowest steps and up to `cycles` cycles of Horovod."""
    last_s = max(map(sum, rank_steps)) + float(rng.uniform(0, cycles * CYCLE_S)) + 1e-5
    return [last_s + float(rng.uniform(0, 1e-3)) for _ in rank_steps]


_MEANS_S = {
    "start": 0.4, "import": 4.5, "init": 0.3, "data": 0.05, "build": 2.5, "broadcast": 0.4, "first_step": 6.4,
    "evaluate": 0.1,
}  # fmt: skip


def _early_phases(rng: Rng, ranks: int) -> list[dict[str, float]]:
    """Return the phases of all ranks before the warm-up. In init, broadcast and first_step they wait for each other."""
    rank_phases = [{name: _scattered(rng, mean_s, 0.1) for name, mean_s in _MEANS_S.items()} for _ in range(ranks)]
    for waits, before in (("init", ("start", "import")), ("broadcast", ("data", "build")), ("first_step", ())):
        arrivals_s = [sum(phases[name] for name in (*before, waits)) for phases in rank_phases]
        for phases, arrival_s in zip(rank_phases, arrivals_s, strict=True):
            phases[waits] += max(arrivals_s) - arrival_s + float(rng.uniform(0, 0.02))
    return rank_phases


def _parts(rng: Rng, timed_s: Sequence[float], fields: Sequence[dict[str, Any]]) -> list[RankPart]:
    """Return the parts of all ranks of one host; `fields` has further fields of each rank."""
    parts = []
    for rank, phases_s in enumerate(_early_phases(rng, len(timed_s))):
        warm_up = fields[rank].get("warm_up_step_times_s", [])
        phases_s |= {"warm_up": sum(warm_up) + 0.05, "timed": timed_s[rank]}
        end_s = sum(phases_s.values())
        times_s = [end_s - float(rng.uniform(0, 1)) - before_s for before_s in (9, 6, 3, 0)]
        part = RankPart(rank=rank, local_rank=rank, node=rank, host="vm", began_at=_STARTED_AT + phases_s["start"])
        part.cores, part.phases_s, part.finished, part.phase = [rank], phases_s, True, "evaluate"
        cpu_times_s = (1.0, 1.9, 2.7, 3.9)
        part.samples = [(at_s, cpu_s, 2**30, None, None) for at_s, cpu_s in zip(times_s, cpu_times_s, strict=True)]
        part.peak_memory_bytes = 2**30
        for name, value in fields[rank].items():
            setattr(part, name, value)
        parts.append(part)
    return parts


def identity(run: RunRecord) -> dict[str, Any]:
    """Return the fields of a record that are known before its launch, as `assemble` takes them."""
    names = (
        *("experiment", "point", "repeat", "generation", "config", "config_hash", "source_digest", "command"),
        *("learning_rate", "swept", "arm", "role", "arm_keys"),
    )
    return {name: getattr(run, name) for name in names}


def _assembled(rng: Rng, run: RunRecord, parts: list[RankPart]) -> RunRecord:
    """Return the record that the launcher assembles from these parts, with the identity of `run`."""
    parts[0].environment = run.environment
    run.environment.hosts[0].host = "vm"
    job_s = max(sum(part.phases_s.values()) for part in parts) + _scattered(rng, 0.4)
    began_s = _STARTED_AT + 1000.0 * run.repeat
    return assemble(parts, identity(run), JobEnd(began_s, job_s, cores_shared=False))


def launch(rng: Rng, nodes: int = 2, step_s: float = 0.8, steps: int = 10, **fields: Any) -> RunRecord:
    """Return a launch of one point, with warm-up and timed steps."""
    run = make_record(nodes=nodes, steps=steps, warm_up_steps=2, **fields)
    timed, warm_up = _steps(rng, nodes, steps, step_s), _steps(rng, nodes, 2, step_s)
    rank_fields = [
        {"step_times_s": timed[i], "warm_up_step_times_s": warm_up[i], "compute_times_s": _computing(rng, timed[i])}
        for i in range(nodes)
    ]
    rank_fields[0]["losses"] = [float(x) for x in rng.uniform(1, 7, steps)]
    return _assembled(rng, run, _parts(rng, _window_times(rng, timed), rank_fields))


def rounds(rng: Rng, number: int = 12, **fields: Any) -> RunRecord:
    """Return a launch in rounds. Each window has two steps of about 0.8 s, for all arms."""
    run = make_rounds([], WEAK, **fields)
    ranks = run.config["nodes"]
    windows: list[list[Window]] = [[] for _ in range(ranks)]
    orders = in_rounds.orders(run.config["seed"], run.repeat, len(WEAK))
    for round_index, order in zip(range(number), orders, strict=False):
        for arm in order:
            size = WEAK[arm].nodes
            steps = _steps(rng, size, 2, 0.8)
            for rank, window_s in enumerate(_window_times(rng, steps, cycles=1.7 if size > 1 else 0.001)):
                windows[rank].append(Window(round_index, arm, window_s, steps[rank], _computing(rng, steps[rank])))
    longest_s = 1.4 * sum(window.window_s for window in windows[0])
    timed_s = [longest_s + float(x) for x in rng.uniform(0, 1e-2, ranks)]
    return _assembled(rng, run, _parts(rng, timed_s, [{"windows": rank_windows} for rank_windows in windows]))


def with_counters(
    rng: Rng, run: RunRecord, other_processes: float = 0.0, stolen: float = 0.0, clock_drop: float = 0.0
) -> RunRecord:
    """Return the record with the kernel's counters of each core.

    The system takes up to a hundredth of a core, counts end within a tick either way, clocks scatter by 3 %. One rank
    waits in the barrier before the steps.

    other_processes, stolen: the shares of the last rank's core that others take.
    clock_drop: the share by which clocks are lower in the last round than in the first.
    """
    last, rounds = run.ranks[-1], 1 + max((window.round for window in run.ranks[0].windows), default=0)
    first_in_barrier = [int(rng.integers(len(run.ranks))) for _ in range(rounds)]
    for rank in run.ranks:
        timed = [(window, window.window_s, window.round) for window in rank.windows]
        for holder, timed_s, round_index in timed or [(rank, rank.phases_s["timed"], 0)]:
            waited_s = 0.02 if len(run.ranks) > 1 and first_in_barrier[round_index] == rank.rank else 0.0
            wall_s, is_last = timed_s + float(rng.uniform(1e-4, 2e-3)) + waited_s, rank is last
            own_s = timed_s * (float(rng.uniform(0.9, 0.98)) - (other_processes + stolen) * is_last)
            busy_s = own_s + timed_s * (float(rng.uniform(0, 0.01)) + other_processes * is_last)
            busy_s += float(rng.uniform(-0.01, 0.01))
            steal_s = timed_s * stolen * is_last + float(rng.uniform(0, 0.01))
            clock = 3000.0 * float(rng.uniform(0.97, 1)) * (1 - clock_drop * round_index / max(1, rounds - 1))
            core_use = CoreUse(wall_s, own_s, _ticks(busy_s), _ticks(steal_s), frequency_mhz=clock)
            setattr(holder, "cores" if isinstance(holder, Window) else "timed_cores", core_use)
    return run


def _ticks(time_s: float) -> float:
    return round(time_s * 100) / 100
