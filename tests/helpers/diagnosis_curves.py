"""Curves whose steps were put together from known parts."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from analysis.diagnose.paired_windows import Arm, ArmTimes, Curve, Launch, PairedWindows
from analysis.diagnose.split import Split, splits

ONE_NODE, TWO_NODES = Arm(1, 4), Arm(2, 4)
CONTROL = Arm(2, 4, "control")
LOCATIONS = [("host0", [0]), ("host0", [1])]


def arm_times(
    ranks_s: Sequence[float],
    computing_s: Sequence[float] | None = None,
    preempted_s: Sequence[float] | None = None,
    window_s: float | None = None,
    steps: int = 2,
) -> ArmTimes:
    """An arm whose ranks took so long for each of `steps` steps; by default the window is filled by the slowest."""
    steps_s = np.repeat(np.array(ranks_s, float)[:, None], steps, axis=1)
    computing = None if computing_s is None else np.repeat(np.array(computing_s, float)[:, None], steps, axis=1)
    lost = None if preempted_s is None else np.array(preempted_s, float)
    stolen = None if lost is None else np.zeros(len(lost))
    return ArmTimes(steps * max(ranks_s) if window_s is None else window_s, steps_s, computing, lost, stolen)


def paired_windows(
    alone: float = 1.0, slower: float = 0.0, waiting: float = 0.0, exchange: float = 0.0, shared: float = 0.0,
    whole_exchange: float | None = None,
) -> PairedWindows:  # fmt: skip
    """A round of one node and of two, of which rank 1 is `waiting` and `shared` behind. Seconds a step."""
    others, late = alone + slower, alone + slower + waiting + shared
    applying = 0.1 * alone  # after the gradients are ready
    return PairedWindows(
        {
            ONE_NODE: arm_times([alone], [alone - applying], [0.0]),
            TWO_NODES: arm_times([late + exchange] * 2, [others - applying, late - applying], [0.0, shared]),
            CONTROL: arm_times([others, late], [others - applying, late - applying], [0.0, shared]),
        },
        {} if whole_exchange is None else {2: whole_exchange},
    )


def curve(rounds: Sequence[PairedWindows], launches: int = 1) -> Curve:
    """A curve with these rounds, shared out among launches."""
    size = -(-len(rounds) // launches)
    parts = [Launch(rounds[begin : begin + size], LOCATIONS) for begin in range(0, len(rounds), size)]
    return Curve("resnet50", "", "AMD EPYC, 2 cores", "cpu", "synthetic", True, parts, ["r0"] * launches)


def arm(name: str, rounds: Sequence[PairedWindows], is_base: bool = False) -> tuple[Curve, list[Split]]:
    """An arm of launches, without a control: the nth round is the nth repeat."""
    repeats = [
        replace(one, arms={arm: times for arm, times in one.arms.items() if arm != CONTROL}, repeat=(0, n))
        for n, one in enumerate(rounds)
    ]
    launches = replace(curve(repeats), in_rounds=False, arm=name, is_base=is_base, arms="one comparison")
    return launches, splits(launches)


def without_gradient_times(rounds: Sequence[PairedWindows]) -> list[PairedWindows]:
    """The same rounds, of which nobody knows when gradients were ready."""
    return [
        replace(one, arms={arm: ArmTimes(times.window_s, times.steps_s, None, None, None)
                           for arm, times in one.arms.items()})
        for one in rounds
    ]  # fmt: skip


def noisy(draw_round: Callable[[np.random.Generator], PairedWindows], rounds: int, seed: int) -> Curve:
    """A curve of so many rounds, each from its own random numbers."""
    random = np.random.default_rng(seed)
    return curve([draw_round(random) for _ in range(rounds)])
