"""Curves for `analysis.diagnose` whose steps have known parts."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from analysis.diagnose.paired_windows import ArmKey, ArmTimes, CurveTimes, LaunchWindows, PairedWindows
from analysis.diagnose.split import Split, splits

ONE_NODE, TWO_NODES = ArmKey(1, 4), ArmKey(2, 4)
CONTROL = ArmKey(2, 4, "control")
LOCATIONS = [("host0", [0]), ("host0", [1])]


def arm_times(
    ranks_s: Sequence[float],
    computing_s: Sequence[float] | None = None,
    preempted_s: Sequence[float] | None = None,
    window_s: float | None = None,
) -> ArmTimes:
    """Return an arm with two equal steps on each rank. The default window lasts as long as the slowest rank."""
    steps_s, computing = (
        None if times_s is None else np.repeat(np.array(times_s, float)[:, None], 2, axis=1)
        for times_s in (ranks_s, computing_s)
    )
    taken_s = None if preempted_s is None else np.array([preempted_s, [0.0] * len(preempted_s)])
    return ArmTimes(2 * max(ranks_s) if window_s is None else window_s, steps_s, computing, taken_s)


def paired_windows(
    alone: float = 1.0, slower: float = 0.0, waiting: float = 0.0, exchange: float = 0.0, shared: float = 0.0,
    whole_exchange: float | None = None,
) -> PairedWindows:  # fmt: skip
    """Return a round of one node and of two, whose rank 1 is late by `waiting` and `shared`. All in seconds a step."""
    rank_0, rank_1 = alone + slower, alone + slower + waiting + shared
    update = 0.1 * alone  # after the gradients are ready
    return PairedWindows(
        {
            ONE_NODE: arm_times([alone], [alone - update], [0.0]),
            TWO_NODES: arm_times([rank_1 + exchange] * 2, [rank_0 - update, rank_1 - update], [0.0, shared]),
            CONTROL: arm_times([rank_0, rank_1], [rank_0 - update, rank_1 - update], [0.0, shared]),
        },
        {} if whole_exchange is None else {2: whole_exchange},
    )


def curve(rounds: Sequence[PairedWindows], launches: int = 1) -> CurveTimes:
    """Return a curve with these rounds, divided among launches."""
    size = -(-len(rounds) // launches)
    parts = [LaunchWindows(rounds[begin : begin + size], LOCATIONS) for begin in range(0, len(rounds), size)]
    command = ["make", "diagnose", "MODELS=resnet50"]
    return CurveTimes("resnet50", "", "AMD EPYC, 2 cores", True, parts, ["r0"] * launches, command, launch_s=60.0)


def arm(name: str, rounds: Sequence[PairedWindows], is_base: bool = False) -> tuple[CurveTimes, list[Split]]:
    """Return an arm of separate launches, without a control, and its splits: the nth round is the nth repeat."""
    repeats = [
        replace(windows, arms={arm: times for arm, times in windows.arms.items() if arm != CONTROL}, repeat=(0, n))
        for n, windows in enumerate(rounds)
    ]
    launches = replace(curve(repeats), in_rounds=False, arm=name, is_base=is_base, arms="one comparison")
    return launches, splits(launches)


def without_gradient_times(rounds: Sequence[PairedWindows]) -> list[PairedWindows]:
    """Return the same rounds without the times at which gradients were ready."""
    return [
        replace(windows, arms={arm: ArmTimes(times.window_s, times.steps_s, None, None)
                               for arm, times in windows.arms.items()})
        for windows in rounds
    ]  # fmt: skip
