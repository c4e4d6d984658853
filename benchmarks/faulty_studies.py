"""Simulated scaling studies whose truth is known, clean or with one fault, as plain CSV files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from benchmarks.common import Rng

RANKS = (1, 2, 4, 8, 16, 32)
FIXED_S, TOTAL_STEPS, BATCH, SPEED_OF_ONE = 10.0, 12_800, 64, 100.0
SPEED = "images_per_s_per_rank"


@dataclass(frozen=True)
class Truth:
    """The truth of a study: noise as a fraction, repeats, the share of the efficiency that remains at each doubling."""

    noise: float = 0.01
    repeats: int = 1
    per_doubling: float = 0.97


def clean(rng: Rng, truth: Truth = Truth()) -> pd.DataFrame:
    """Return a fixed work shared out: one row a run, with independent proportional noise of speeds and wall times."""
    rows = []
    for ranks in np.repeat(RANKS, truth.repeats):
        steps, speed = TOTAL_STEPS // ranks, SPEED_OF_ONE * truth.per_doubling ** np.log2(ranks)
        wall_s, measured = np.exp(rng.normal(0, truth.noise, 2)) * (FIXED_S + steps * BATCH / speed, speed)
        rows.append(("resnet50", ranks, steps, BATCH, round(wall_s, 3), round(measured, 3)))
    names = ["model", "ranks", "steps_per_rank", "batch_per_rank", "wall_s", SPEED]
    return pd.DataFrame(rows, columns=names).assign(repeat=[*range(truth.repeats)] * len(RANKS))


Fault = Callable[[pd.DataFrame, pd.Series], None]  # changes a study, at the rows of one number of ranks


def _times(column: str, factor: float | None, everywhere: bool = False) -> Fault:
    """Return a fault: a column is multiplied by a factor, None by the ranks."""

    def plant(study: pd.DataFrame, at: pd.Series) -> None:
        rows = at | everywhere
        study.loc[rows, column] *= study.loc[rows, "ranks"] if factor is None else factor

    return plant


def _slow_base(study: pd.DataFrame, at: pd.Series) -> None:
    study.loc[study["ranks"].eq(1), SPEED] /= 1.3


def _beside(study: pd.DataFrame, at: pd.Series, twice: bool) -> pd.Series:
    """Return the rows of twice the ranks, unless these are the most, or else of half of them."""
    ranks = study.loc[at, "ranks"].iloc[0]
    return study["ranks"].eq(ranks * 2 if twice and ranks < max(RANKS) else ranks // 2)


def _swapped(study: pd.DataFrame, at: pd.Series) -> None:
    others = _beside(study, at, twice=True)
    for name in ("wall_s", "steps_per_rank"):
        values, other_values = study.loc[at, name].to_numpy(), study.loc[others, name].to_numpy()
        study.loc[at, name], study.loc[others, name] = other_values, values


def _copied(study: pd.DataFrame, at: pd.Series) -> None:
    study.loc[at, SPEED] = study.loc[_beside(study, at, twice=False), SPEED].to_numpy()


def _half_the_steps(study: pd.DataFrame, at: pd.Series) -> None:
    """Halve the steps of the run, and their time."""
    study.loc[at, "wall_s"] -= study.loc[at, "steps_per_rank"] / 2 * BATCH / study.loc[at, SPEED]
    study.loc[at, "steps_per_rank"] //= 2


def _other_precision(study: pd.DataFrame, at: pd.Series) -> None:
    """Make this point 1.7 times as fast, as in another precision than that of the others."""
    study.loc[at, "wall_s"] -= study.loc[at, "steps_per_rank"] * BATCH / study.loc[at, SPEED] * (1 - 1 / 1.7)
    study.loc[at, SPEED] *= 1.7


def _under_another_name(study: pd.DataFrame, at: pd.Series) -> None:
    """Add the curve once more, as that of another model."""
    for row in study.to_dict("records"):
        study.loc[len(study)] = row | {"model": "inceptionv3"}


# Each fault, and the rules that can see it; a fault is found if one of them fires.
FAULTS: dict[str, tuple[Fault, tuple[str, ...]]] = {
    "speed 1.3 times too high at one point": (_times(SPEED, 1.3), ("beyond_ideal", "wall_time_misfit")),
    "base 1.3 times too slow": (_slow_base, ("beyond_ideal", "too_short")),
    "speed of the whole job as of one rank, at one point": (_times(SPEED, None), ("beyond_ideal", "speed_times_off")),
    "speed of the whole job as of one rank, at all points": (_times(SPEED, None, True), ("speed_of_the_job",)),
    "speed ten times too high at one point": (_times(SPEED, 10), ("speed_times_off",)),
    "speed ten times too low at one point": (_times(SPEED, 0.1), ("too_short",)),
    "all speeds ten times too high": (_times(SPEED, 10, True), ("speed_times_off",)),
    "all speeds ten times too low": (_times(SPEED, 0.1, True), ("too_short",)),
    "one point slower than half its ranks": (_times(SPEED, 0.4), ("more_ranks_no_faster", "too_short")),
    "wall time 1.5 times too long at one point": (_times("wall_s", 1.5), ("wall_time_misfit",)),
    "wall time half at one point": (_times("wall_s", 0.5), ("wall_time_misfit", "too_short")),
    "wall time in minutes at one point": (_times("wall_s", 1 / 60), ("wall_time_misfit", "too_short")),
    "half the steps at one point": (_half_the_steps, ("unequal_work",)),
    "two points under each other's label": (_swapped, ("unequal_work", "too_short", "wall_time_misfit")),
    "speed copied from the point before": (_copied, ("copied_values",)),
    "steps of the whole job as of one rank, at all points": (_times("steps_per_rank", None, True), ("too_short",)),
    "wall times in milliseconds": (_times("wall_s", 1000, True), ("speed_times_off",)),
    "another precision at one point, 1.7 times as fast": (_other_precision, ("beyond_ideal",)),
    "one curve as that of two models": (_under_another_name, ("copied_curves",)),
}


def faulty(rng: Rng, name: str, truth: Truth = Truth()) -> pd.DataFrame:
    """Return a study with this fault at a random point, except the smallest."""
    study = clean(rng, truth)
    FAULTS[name][0](study, study["ranks"].eq(int(rng.choice(RANKS[1:]))))
    return study
