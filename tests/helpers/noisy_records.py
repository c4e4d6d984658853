"""Run records of a noisy machine, whose times scatter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from record import rounds as in_rounds
from record.schema import CoreUse, RunRecord, Window
from tests.helpers.run_records import WEAK, make_record, make_rounds, update_derived

CYCLE_S = 0.02
Rng = np.random.Generator


def _steps(rng: Rng, ranks: int, count: int, step_s: float) -> list[list[float]]:
    """Return the step times of each rank, 3 % longer on average. Ranks wait for each other, and end within 0.1 ms."""
    common_s = step_s * (1 + rng.exponential(0.03, count))
    return (common_s + rng.uniform(0, 1e-4, (ranks, count))).tolist()


def _computing(rng: Rng, steps: Sequence[float]) -> list[float]:
    return (np.array(steps) * rng.uniform(0.8, 0.95, len(steps))).tolist()


def _window_times(rng: Rng, rank_steps: Sequence[Sequence[float]], cycles: float = 1.7) -> list[float]:
    """Return the time between the barriers for each rank: the slowest steps and up to `cycles` cycles of Horovod."""
    last_s = max(map(sum, rank_steps)) + float(rng.uniform(0, cycles * CYCLE_S)) + 1e-5
    return [last_s + float(rng.uniform(0, 1e-3)) for _ in rank_steps]


def launch(rng: Rng, nodes: int = 2, step_s: float = 0.8, steps: int = 10, **fields: Any) -> RunRecord:
    """Return a launch of one point, with warm-up and timed steps."""
    run = make_record(nodes=nodes, steps=steps, **fields)
    timed, warm_up = _steps(rng, nodes, steps, step_s), _steps(rng, nodes, 2, step_s)
    for rank, window_s in zip(run.ranks, _window_times(rng, timed), strict=True):
        rank.step_times_s, rank.warm_up_step_times_s = timed[rank.rank], warm_up[rank.rank]
        rank.compute_times_s = _computing(rng, rank.step_times_s)
        rank.phases_s |= {"warm_up": sum(rank.warm_up_step_times_s) + 0.05, "timed": window_s}
    return update_derived(run)


def rounds(rng: Rng, number: int = 12, **fields: Any) -> RunRecord:
    """Return a launch in rounds. Each window has two steps of about 0.8 s, for all arms."""
    run = make_rounds([], WEAK, **fields)
    orders = in_rounds.orders(run.config["seed"], run.repeat, len(WEAK))
    for round_index, order in zip(range(number), orders, strict=False):
        for arm in order:
            size = WEAK[arm].nodes
            steps = _steps(rng, size, 2, 0.8)
            for rank, window_s in enumerate(_window_times(rng, steps, cycles=1.7 if size > 1 else 0.001)):
                times = steps[rank], _computing(rng, steps[rank])
                run.ranks[rank].windows.append(Window(round_index, arm, window_s, *times))
    longest_s = 1.4 * sum(window.window_s for window in run.ranks[0].windows)
    for rank in run.ranks:
        rank.phases_s["timed"] = longest_s + float(rng.uniform(0, 1e-2))
    return update_derived(run)


def with_counters(
    rng: Rng, run: RunRecord, other_processes: float = 0.0, stolen: float = 0.0, clock_drop: float = 0.0
) -> RunRecord:
    """Return a record in rounds with the kernel's counters of each core.

    The system takes up to a hundredth of a core, counts end within a tick either way, clocks scatter by 3 %. One rank
    waits in the barrier before the steps.

    other_processes, stolen: the shares of the last rank's core that others take.
    clock_drop: the share by which clocks are lower in the last round than in the first.
    """
    rounds = 1 + max(window.round for window in run.ranks[0].windows)
    first_in_barrier = rng.integers(len(run.ranks), size=rounds)
    for rank in run.ranks:
        is_last = rank is run.ranks[-1]
        for window in rank.windows:
            waited_s = 0.02 if first_in_barrier[window.round] == rank.rank else 0.0
            wall_s = window.window_s + float(rng.uniform(1e-4, 2e-3)) + waited_s
            own_s = window.window_s * (float(rng.uniform(0.9, 0.98)) - (other_processes + stolen) * is_last)
            busy_s = own_s + window.window_s * (float(rng.uniform(0, 0.01)) + other_processes * is_last)
            busy_s += float(rng.uniform(-0.01, 0.01))
            steal_s = window.window_s * stolen * is_last + float(rng.uniform(0, 0.01))
            clock = 3000.0 * float(rng.uniform(0.97, 1)) * (1 - clock_drop * window.round / max(1, rounds - 1))
            window.cores = CoreUse(wall_s, own_s, round(busy_s, 2), round(steal_s, 2), frequency_mhz=clock)
    return run
