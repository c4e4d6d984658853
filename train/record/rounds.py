"""Rates and speedups of the arms of a launch in rounds: used by the ranks to decide when to stop, and by the analysis.

A round runs every arm once. A speedup is a ratio of two rates of one round, so that a drift of the machine cancels.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from train.record.record import Window
from train.record.summary import throughput


@dataclass(frozen=True)
class Arm:
    """What is needed of an arm to compute its rate."""

    ranks: int
    batch_per_rank: int


Rates = list[dict[int, float]]  # of each round: arm -> images/s


def rates(arms: Sequence[Arm], windows_of_ranks: Iterable[Sequence[Window]]) -> Rates:
    """The throughput of each arm in each round, in images/s, gated by the slowest of its ranks.

    windows_of_ranks: the windows of each rank. An arm that some of its ranks did not finish in a round is left out.
    """
    found: dict[tuple[int, int], list[Window]] = {}
    for windows in windows_of_ranks:
        for window in windows:
            found.setdefault((window.round, window.arm), []).append(window)
    by_round: Rates = [{} for _ in range(1 + max((number for number, _ in found), default=-1))]
    for (number, place), windows in found.items():
        arm = arms[place]
        if len(windows) == arm.ranks:
            slowest_s = max(window.window_s for window in windows)
            steps = len(windows[0].step_times_s)
            by_round[number][place] = throughput(arm.ranks * arm.batch_per_rank, steps, slowest_s)
    return by_round


def ratios(of_rounds: Rates, arm: int, base: int = 0) -> list[float]:
    """The rate of an arm over that of the base, in each round that has both, in the order of rounds."""
    return [rate[arm] / rate[base] for rate in of_rounds if arm in rate and base in rate]
