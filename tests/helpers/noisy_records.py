"""Run records as a noisy machine leaves them: parts of ranks with clocks that scatter, put together by the launcher."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

import numpy as np

from tests.helpers.run_records import WEAK, Arm, make_record, make_rounds
from train.record import rounds as in_rounds
from train.record.parts import Identity, JobEnd, Part, assemble
from train.record.record import AllreduceTimes, CoreUse, Epoch, Failure, Order, RunRecord, Window

CYCLE_S = 0.02
_STARTED_AT = 1_764_000_000.0
Rng = np.random.Generator


def _scattered(rng: Rng, mean_s: float, noise: float = 0.03) -> float:
    """A time as a clock gives it, never shorter than the mean."""
    return float(mean_s * (1 + rng.exponential(noise)))


def _steps(rng: Rng, ranks: int, count: int, step_s: float) -> list[list[float]]:
    """The steps of each rank: they wait for each other at every exchange, and leave it within a tenth of a ms."""
    together = [_scattered(rng, step_s) for _ in range(count)]
    return [[time_s + float(rng.uniform(0, 1e-4)) for time_s in together] for _ in range(ranks)]


def _computing(rng: Rng, steps: Sequence[float]) -> list[float]:
    return [time_s * float(rng.uniform(0.8, 0.95)) for time_s in steps]


def _window_s(rng: Rng, of_ranks: Sequence[Sequence[float]], cycles: float = 1.7) -> list[float]:
    """The time between the barriers of these ranks: their slowest steps, up to the next cycle of Horovod or two."""
    last_s = max(map(sum, of_ranks)) + float(rng.uniform(0, cycles * CYCLE_S)) + 1e-5
    return [last_s + float(rng.uniform(0, 1e-3)) for _ in of_ranks]


_MEANS_S = {
    "start": 0.4, "import": 4.5, "init": 0.3, "data": 0.05, "build": 2.5, "broadcast": 0.4, "first_step": 6.4,
    "evaluate": 0.1,
}  # fmt: skip


def _together(rng: Rng, ranks: int) -> list[dict[str, float]]:
    """The phases of all ranks before the warm-up: in init, broadcast and the first step they wait for the last one."""
    drawn = [{name: _scattered(rng, mean_s, 0.1) for name, mean_s in _MEANS_S.items()} for _ in range(ranks)]
    for waits, before in (("init", ("start", "import")), ("broadcast", ("data", "build")), ("first_step", ())):
        busy_s = [sum(phases[name] for name in (*before, waits)) for phases in drawn]
        for phases, own_s in zip(drawn, busy_s, strict=True):
            phases[waits] += max(busy_s) - own_s + float(rng.uniform(0, 0.02))
    return drawn


def _parts(rng: Rng, ranks: int, windows_s: Sequence[float], more: Sequence[dict[str, Any]]) -> list[Part]:
    """The parts of all ranks of one host; `more` has for each what else it measured."""
    made, of_ranks = [], _together(rng, ranks)
    for rank, window_s in enumerate(windows_s):
        of_phases = of_ranks[rank]
        warm_up = more[rank].get("warm_up_step_times_s", [])
        of_phases |= {"warm_up": sum(warm_up) + 0.05, "timed": window_s}
        end_s = sum(of_phases.values())
        at = [end_s - float(rng.uniform(0, 1)) - before_s for before_s in (9, 6, 3, 0)]
        part = Part(rank=rank, local_rank=rank, node=rank, host="vm", began_at=_STARTED_AT + of_phases["start"])
        part.cores, part.phases_s, part.finished, part.phase = [rank], of_phases, True, "evaluate"
        used_s = (1.0, 1.9, 2.7, 3.9)
        part.samples = [(at_s, cpu_s, 2**30, None, None) for at_s, cpu_s in zip(at, used_s, strict=True)]
        part.peak_memory_bytes = 2**30
        for name, value in more[rank].items():
            setattr(part, name, value)
        made.append(part)
    return made


def _assembled(rng: Rng, made: RunRecord, parts: list[Part], by_hand: bool = False) -> RunRecord:
    """The record that the launcher puts together of these parts, for the run that `made` identifies."""
    parts[0].environment = made.environment
    made.environment.hosts[0].host = "vm"
    identity = Identity(
        experiment=made.experiment, point=made.point, repeat=made.repeat, generation=made.generation,
        config=made.config, config_hash=made.config_hash, source_digest=made.source_digest, command=made.command,
        learning_rate=made.learning_rate, swept=made.swept, arm=made.arm, role=made.role, arm_keys=made.arm_keys,
    )  # fmt: skip
    busy_s = max(sum(part.phases_s.values()) for part in parts)
    job_s = sum(parts[0].phases_s.values()) if by_hand else busy_s + _scattered(rng, 0.4)
    began_s = _STARTED_AT + 1000.0 * made.repeat
    return assemble(parts, identity, JobEnd(began_s, job_s, cores_shared=False, supervised=not by_hand))


def launch(
    rng: Rng, nodes: int = 2, step_s: float = 0.8, steps: int = 10, by_hand: bool = False, **run: Any
) -> RunRecord:
    """A launch of one point, with warm-up and timed steps."""
    made = make_record(nodes=nodes, steps=steps, warm_up_steps=2, **run)
    timed, warm_up = _steps(rng, nodes, steps, step_s), _steps(rng, nodes, 2, step_s)
    more = [
        {"step_times_s": timed[i], "warm_up_step_times_s": warm_up[i], "compute_times_s": _computing(rng, timed[i])}
        for i in range(nodes)
    ]
    more[0]["losses"] = [float(x) for x in rng.uniform(1, 7, steps)]
    return _assembled(rng, made, _parts(rng, nodes, _window_s(rng, timed), more), by_hand)


def rounds(rng: Rng, arms: Sequence[Arm] = WEAK, step_s: float = 0.8, number: int = 12, **run: Any) -> RunRecord:
    """A launch in rounds, each window of two steps of the same mean, whatever the arm."""
    made = make_rounds([], arms, **run)
    ranks = made.config["nodes"]
    windows: list[list[Window]] = [[] for _ in range(ranks)]
    orders = in_rounds.orders(made.config["seed"], made.repeat, len(arms))
    for turn, order in zip(range(number), orders, strict=False):
        for place in order:
            size = arms[place].nodes
            steps = _steps(rng, size, 2, step_s)
            for rank, window_s in enumerate(_window_s(rng, steps, cycles=1.7 if size > 1 else 0.001)):
                windows[rank].append(Window(turn, place, window_s, steps[rank], _computing(rng, steps[rank])))
    longest_s = 1.4 * sum(window.window_s for window in windows[0])
    more = [{"windows": of_rank} for of_rank in windows]
    return _assembled(rng, made, _parts(rng, ranks, [longest_s + float(x) for x in rng.uniform(0, 1e-2, ranks)], more))


def epochs(rng: Rng, nodes: int = 2, number: int = 3, steps: int = 20, step_s: float = 1.0, **run: Any) -> RunRecord:
    """Training over epochs of 20 s."""
    listed = [Epoch(i + 1, steps, steps * step_s, 1.0, 0.5) for i in range(number)]
    made = make_record(nodes=nodes, epochs=listed, **{"measure.epochs": number, **run})
    of_epochs = [_steps(rng, nodes, steps - (turn == 0), step_s) for turn in range(number)]
    windows = [_window_s(rng, of_ranks) for of_ranks in of_epochs]
    timed = [[time_s for of_ranks in of_epochs for time_s in of_ranks[rank]] for rank in range(nodes)]
    parts = _parts(
        rng, nodes, [sum(of[rank] for of in windows) for rank in range(nodes)],
        [{"step_times_s": of_rank} for of_rank in timed],
    )  # fmt: skip
    for part in parts:
        del part.phases_s["warm_up"]
    first_s = parts[0].phases_s["first_step"]
    durations = [
        window[0] + (first_s if turn == 0 else 0.0) + float(rng.uniform(0, 0.01)) for turn, window in enumerate(windows)
    ]
    parts[0].epochs = [Epoch(i + 1, steps, duration, 1.0, 0.5) for i, duration in enumerate(durations)]
    parts[0].losses = [float(x) for x in rng.uniform(1, 7, number * steps - 1)]
    return _assembled(rng, made, parts)


def sweep(
    rng: Rng, nodes: int = 2, sizes: Sequence[int] = (1 << 20, 1 << 26), count: int = 20, **run: Any
) -> RunRecord:
    """A sweep of allreduces."""
    made = make_record("allreduce_bench", nodes=nodes, swept={"nodes": nodes}, allreduce_sweep={"probe_s": 1.0}, **run)
    made.config["model"] = made.config["model"] | {"name": "none"}
    times = [_steps(rng, nodes, count, 0.02 if size < 1 << 22 else 0.2) for size in sizes]
    windows = [_window_s(rng, of_ranks) for of_ranks in times]
    more = [
        {"allreduces": [AllreduceTimes(size, of_ranks[rank]) for size, of_ranks in zip(sizes, times, strict=True)]}
        for rank in range(nodes)
    ]
    timed = [sum(of[rank] for of in windows) for rank in range(nodes)]
    return _assembled(rng, made, _parts(rng, nodes, timed, more))


def with_counters(
    rng: Rng, run: RunRecord, other_processes: float = 0.0, stolen: float = 0.0, clock_drop: float = 0.0
) -> RunRecord:
    """The record with what the kernel counted on each core; the shares that others took of that of the last rank.

    The system itself takes up to a hundredth of a core, counts end within a tick either way, clocks scatter by 3 %. All
    ranks but the last to come wait in the barrier before the steps.

    clock_drop: the share by which clocks are lower in the last round than in the first.
    """
    last, rounds = run.ranks[-1], 1 + max((window.round for window in run.ranks[0].windows), default=0)
    first_to_come = {turn: int(rng.integers(len(run.ranks))) for turn in range(rounds)}
    for rank in run.ranks:
        timed = [(window, window.window_s, window.round) for window in rank.windows]
        for holder, timed_s, turn in timed or [(rank, rank.phases_s["timed"], 0)]:
            waited_s = 0.02 if len(run.ranks) > 1 and first_to_come[turn] == rank.rank else 0.0
            wall_s, late = timed_s + float(rng.uniform(1e-4, 2e-3)) + waited_s, rank is last
            own_s = timed_s * (float(rng.uniform(0.9, 0.98)) - (other_processes + stolen) * late)
            busy_s = own_s + timed_s * (float(rng.uniform(0, 0.01)) + other_processes * late)
            busy_s += float(rng.uniform(-0.01, 0.01))
            steal_s = timed_s * stolen * late + float(rng.uniform(0, 0.01))
            clock = 3000.0 * float(rng.uniform(0.97, 1)) * (1 - clock_drop * turn / max(1, rounds - 1))
            use = CoreUse(wall_s, own_s, _ticks(busy_s), _ticks(steal_s), frequency_mhz=clock)
            setattr(holder, "cores" if isinstance(holder, Window) else "timed_cores", use)
    return run


def _ticks(time_s: float) -> float:
    return round(time_s * 100) / 100


def study(rng: Rng) -> list[RunRecord]:
    """Weak scaling as the launcher leaves it: three repeats of two points, two launches in rounds, one after another.

    Repeat by repeat, each in a random order. The second repeat of the second point failed at first.
    """
    runs: list[RunRecord] = []
    for repeat in range(3):
        due = [launch(rng, nodes, steps=20, repeat=repeat, generation=1) for nodes in (1, 2)]
        if repeat < 2:
            due.append(rounds(rng, number=12, repeat=repeat, generation=1, **{"measure.repeats": 2}))
        runs += [due[place] for place in rng.permutation(len(due))]
    for place, run in enumerate(runs):
        run.order = Order(0, place, len(runs))
    again = next(run for run in runs if (run.point, run.repeat) == ("resnet50_nodes=2", 1))
    failed = make_record(nodes=2, steps=20, repeat=1, generation=1, failure=Failure("killed by signal 9", rank=1))
    again.generation, failed.order = 2, again.order
    runs.insert(runs.index(again), failed)
    at_s = _STARTED_AT
    for run in runs:
        run.started_at = _at(at_s)
        at_s += run.job_s + float(rng.uniform(2, 10))
    return [run if run.failure else with_counters(rng, run) for run in runs]


def _at(at_s: float) -> str:
    return datetime.fromtimestamp(at_s, UTC).isoformat(timespec="seconds")


KINDS: dict[str, Callable[..., RunRecord]] = {
    "a launch of one point": launch,
    "a launch in rounds": rounds,
    "training over epochs": epochs,
    "a sweep of allreduces": sweep,
}
