"""Curves whose steps were put together from known parts."""

from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np

from analysis.diagnose.split import Split, splits
from analysis.diagnose.turns import Arm, Curve, Launch, Measured, Turn

ONE, TWO = Arm(1, 4), Arm(2, 4)
CONTROL = Arm(2, 4, "control")
PLACES = [("host0", [0]), ("host0", [1])]


def measured(
    ranks_s: Sequence[float],
    computing_s: Sequence[float] | None = None,
    lost_s: Sequence[float] | None = None,
    window_s: float | None = None,
    steps: int = 2,
) -> Measured:
    """An arm whose ranks took so long for each of `steps` steps; by default the window is filled by the slowest."""
    steps_s = np.repeat(np.array(ranks_s, float)[:, None], steps, axis=1)
    computing = None if computing_s is None else np.repeat(np.array(computing_s, float)[:, None], steps, axis=1)
    lost = None if lost_s is None else np.array(lost_s, float)
    stolen = None if lost is None else np.zeros(len(lost))
    return Measured(steps * max(ranks_s) if window_s is None else window_s, steps_s, computing, lost, stolen)


def turn(
    alone: float = 1.0, slower: float = 0.0, waiting: float = 0.0, exchange: float = 0.0, shared: float = 0.0,
    whole_exchange: float | None = None,
) -> Turn:  # fmt: skip
    """A round of one node and of two, of which rank 1 is `waiting` and `shared` behind. Seconds a step."""
    others, late = alone + slower, alone + slower + waiting + shared
    applying = 0.1 * alone  # after the gradients are ready
    return Turn(
        {
            ONE: measured([alone], [alone - applying], [0.0]),
            TWO: measured([late + exchange] * 2, [others - applying, late - applying], [0.0, shared]),
            CONTROL: measured([others, late], [others - applying, late - applying], [0.0, shared]),
        },
        {} if whole_exchange is None else {2: whole_exchange},
    )


def curve(turns: Sequence[Turn], launches: int = 1) -> Curve:
    """A curve in rounds with these turns, shared out among launches."""
    size = -(-len(turns) // launches)
    made = [Launch(turns[begin : begin + size], PLACES) for begin in range(0, len(turns), size)]
    return Curve("resnet50", "", "AMD EPYC, 2 cores", "cpu", "synthetic", True, made, ["r0"] * launches)


def arm(name: str, turns: Sequence[Turn], is_base: bool = False) -> tuple[Curve, list[Split]]:
    """An arm of launches, without a control: the nth turn is the nth repeat."""
    kept = [
        replace(turn, arms={point: of for point, of in turn.arms.items() if point != CONTROL}, repeat=(0, n))
        for n, turn in enumerate(turns)
    ]
    made = replace(curve(kept), in_rounds=False, arm=name, is_base=is_base, arms="one comparison")
    return made, splits(made)


def noisy(of_round: Callable[[np.random.Generator], Turn], rounds: int, seed: int) -> Curve:
    """A curve of so many rounds, each drawn anew."""
    random = np.random.default_rng(seed)
    return curve([of_round(random) for _ in range(rounds)])
