"""Simulated scaling studies whose truth is known, clean or with one fault, as plain CSV files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from benchmarks.common import Rng

RANKS = (1, 2, 4, 8, 16, 32)


@dataclass(frozen=True)
class Truth:
    """The truth of a study: noise as a fraction, repeats, the share of the efficiency that remains at each doubling."""

    noise: float = 0.01
    repeats: int = 1
    per_doubling: float = 0.97
    fixed_s: float = 10.0
    total_steps: int = 12800
    batch: int = 64
    speed: float = 100.0


def clean(rng: Rng, truth: Truth = Truth()) -> pd.DataFrame:
    """Return a fixed work shared out: one row a run, with independent proportional noise of speeds and wall times."""
    rows = []
    for ranks in RANKS:
        for repeat in range(truth.repeats):
            steps = truth.total_steps // ranks
            speed = truth.speed * truth.per_doubling ** np.log2(ranks)
            wall_s = truth.fixed_s + steps * truth.batch / speed
            rows.append(
                {
                    "model": "resnet50",
                    "ranks": ranks,
                    "steps_per_rank": steps,
                    "batch_per_rank": truth.batch,
                    "wall_s": round(wall_s * float(np.exp(rng.normal(0, truth.noise))), 3),
                    "images_per_s_per_rank": round(speed * float(np.exp(rng.normal(0, truth.noise))), 3),
                    "repeat": repeat,
                }
            )
    return pd.DataFrame(rows)


def _at(study: pd.DataFrame, ranks: int) -> pd.Series:
    return study["ranks"].eq(ranks)


def _times(column: str, factor: float | None, rows: str = "point") -> Callable[[pd.DataFrame, int], None]:
    """Return a fault: a column is multiplied by a factor, None by the ranks, at a point, at the base, or at all."""

    def plant(study: pd.DataFrame, ranks: int) -> None:
        chosen = {"point": _at(study, ranks), "base": _at(study, 1), "all": study["ranks"].gt(0)}[rows]
        study.loc[chosen, column] *= study.loc[chosen, "ranks"] if factor is None else factor

    return plant


def _swapped(study: pd.DataFrame, ranks: int) -> None:
    """Swap the measurements of this point and of the one with twice the ranks."""
    rows, others = _at(study, ranks), _at(study, ranks * 2 if ranks < max(RANKS) else ranks // 2)
    for name in ("wall_s", "steps_per_rank"):
        values, other_values = study.loc[rows, name].to_numpy(), study.loc[others, name].to_numpy()
        study.loc[rows, name], study.loc[others, name] = other_values, values


def _copied(study: pd.DataFrame, ranks: int) -> None:
    before = study.loc[_at(study, ranks // 2), "images_per_s_per_rank"].to_numpy()
    study.loc[_at(study, ranks), "images_per_s_per_rank"] = before


def _half_the_steps(study: pd.DataFrame, ranks: int) -> None:
    """Halve the steps of the run, and their time."""
    rows = _at(study, ranks)
    study.loc[rows, "wall_s"] -= study.loc[rows, "steps_per_rank"] / 2 * 64 / study.loc[rows, "images_per_s_per_rank"]
    study.loc[rows, "steps_per_rank"] //= 2


def _other_precision(study: pd.DataFrame, ranks: int) -> None:
    """Make this point 1.7 times as fast, as in another precision than that of the others."""
    rows = _at(study, ranks)
    steps_s = study.loc[rows, "steps_per_rank"] * 64 / study.loc[rows, "images_per_s_per_rank"]
    study.loc[rows, "wall_s"] -= steps_s * (1 - 1 / 1.7)
    study.loc[rows, "images_per_s_per_rank"] *= 1.7


def _under_another_name(study: pd.DataFrame, ranks: int) -> None:
    """Add the curve once more, as that of another model."""
    for row in study.to_dict("records"):
        study.loc[len(study)] = row | {"model": "inceptionv3"}


# Each fault, and the rules that can see it; a fault is found if one of them fires.
SPEED = "images_per_s_per_rank"
FAULTS: dict[str, tuple[Callable[[pd.DataFrame, int], None], tuple[str, ...]]] = {
    "speed 1.3 times too high at one point": (_times(SPEED, 1.3), ("beyond_ideal", "wall_time_misfit")),
    "base 1.3 times too slow": (_times(SPEED, 1 / 1.3, "base"), ("beyond_ideal", "too_short")),
    "speed of the whole job as of one rank, at one point": (_times(SPEED, None), ("beyond_ideal", "speed_times_off")),
    "speed of the whole job as of one rank, at all points": (_times(SPEED, None, "all"), ("speed_of_the_job",)),
    "speed ten times too high at one point": (_times(SPEED, 10), ("speed_times_off",)),
    "speed ten times too low at one point": (_times(SPEED, 0.1), ("too_short",)),
    "all speeds ten times too high": (_times(SPEED, 10, "all"), ("speed_times_off",)),
    "all speeds ten times too low": (_times(SPEED, 0.1, "all"), ("too_short",)),
    "one point slower than half its ranks": (_times(SPEED, 0.4), ("more_ranks_no_faster", "too_short")),
    "wall time 1.5 times too long at one point": (_times("wall_s", 1.5), ("wall_time_misfit",)),
    "wall time half at one point": (_times("wall_s", 0.5), ("wall_time_misfit", "too_short")),
    "wall time in minutes at one point": (_times("wall_s", 1 / 60), ("wall_time_misfit", "too_short")),
    "half the steps at one point": (_half_the_steps, ("unequal_work",)),
    "two points under each other's label": (_swapped, ("unequal_work", "too_short", "wall_time_misfit")),
    "speed copied from the point before": (_copied, ("copied_values",)),
    "steps of the whole job as of one rank, at all points": (_times("steps_per_rank", None, "all"), ("too_short",)),
    "wall times in milliseconds": (_times("wall_s", 1000, "all"), ("speed_times_off",)),
    "another precision at one point, 1.7 times as fast": (_other_precision, ("beyond_ideal",)),
    "one curve as that of two models": (_under_another_name, ("copied_curves",)),
}


def faulty(rng: Rng, name: str, truth: Truth = Truth()) -> pd.DataFrame:
    """Return a study with this fault at a random point, except the smallest."""
    study = clean(rng, truth)
    FAULTS[name][0](study, int(rng.choice(RANKS[1:])))
    return study


def write(study: pd.DataFrame, path: Path) -> Path:
    study.to_csv(path, index=False)
    return path
