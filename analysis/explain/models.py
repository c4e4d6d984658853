"""How wall times are modelled: a fixed cost, and a cost of the steps that is known, partly known, or fitted.

    wall_s = fixed_s + steps_per_rank x batch_per_rank x time per image

The models differ in what they assume of the time per image at each number of ranks. A table of runs has the columns
ranks, images_per_rank (= steps_per_rank x batch_per_rank, of each run), wall_s [s] and images_per_s_per_rank (NaN: not
known).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from analysis import metrics
from analysis.explain.linear import Array, System

Columns = Callable[[pd.DataFrame], list[pd.Series]]


@dataclass(frozen=True)
class Model:
    """One model: each of `shapes` has what multiplies each cost that is fitted beside the fixed one.

    Several shapes leave open which of them it is.
    """

    name: str
    assumes: str
    shapes: tuple[Columns, ...]
    speeds: bool = False  # whether it uses measured speeds
    taken: bool = False  # whether the time of the steps is taken from the speeds as it is
    by_ranks: bool = False  # whether it knows nothing of other numbers of ranks than those it was made from

    def designs(self, runs: pd.DataFrame) -> Array:
        """The factors of the fixed cost and of the other costs, (shapes, runs, costs)."""
        ones = np.ones(len(runs))
        return np.stack(
            [np.column_stack([ones, *(column.to_numpy(float) for column in columns(runs))]) for columns in self.shapes]
        )

    def known_s(self, runs: pd.DataFrame) -> pd.Series:
        """What is known of each wall time before anything is fitted [s]."""
        return steps_s(runs) if self.taken else pd.Series(0.0, runs.index)

    def usable(self, runs: pd.DataFrame) -> pd.DataFrame:
        """The runs that the model can use."""
        return runs[runs["images_per_s_per_rank"].notna()] if self.speeds else runs

    def system(self, runs: pd.DataFrame) -> System:
        """The equations of `runs`, all of which the model can use."""
        times_s = runs["wall_s"].to_numpy(float)
        return System(self.designs(runs), times_s - self.known_s(runs).to_numpy(float), times_s, self.speeds)


def steps_s(runs: pd.DataFrame) -> pd.Series:
    """The time of the steps of each run at its measured speed [s]; NaN where the speed is not known."""
    return metrics.step_s(runs["images_per_rank"], runs["images_per_s_per_rank"])


def _at_each_doubling(runs: pd.DataFrame) -> list[pd.Series]:
    return [runs["images_per_rank"], runs["images_per_rank"] * np.log2(runs["ranks"].astype(float))]


def _as_a_ring(runs: pd.DataFrame) -> list[pd.Series]:
    return [runs["images_per_rank"], runs["images_per_rank"] * metrics.hops(runs["ranks"].astype(float))]


SPEEDS = Model("measured speeds", "the measured speeds are right", (lambda runs: [],), speeds=True, taken=True)
FACTOR = Model(
    "speeds up to a factor", "the measured speeds are right but for one factor", (lambda runs: [steps_s(runs)],), True
)
EQUAL = Model(
    "equal time per image", "the time per image is the same at every point", (lambda runs: [runs["images_per_rank"]],)
)
GROWING = Model(
    "time per image grows",
    "the time per image changes alike at each doubling of the ranks, or as the sends of a ring allreduce do",
    (_at_each_doubling, _as_a_ring),
)


def own_times(runs: pd.DataFrame) -> Model:
    """The model with a time per image of its own at each number of ranks of `runs`; the smallest comes first."""
    ranks = sorted(set(runs["ranks"]))

    def columns(of: pd.DataFrame) -> list[pd.Series]:
        return [of["images_per_rank"].where(of["ranks"].eq(one), 0.0) for one in ranks]

    return Model(
        "own time per image",
        "nothing of the time per image: each number of ranks has its own",
        (columns,),
        by_ranks=True,
    )
