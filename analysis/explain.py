"""Why speedup by speed and speedup by wall time differ: wall time split into a fixed cost and a cost per step.

Each rank of a run pays a cost that does not depend on how long it trains (variables sent to all ranks, the first,
traced step, warm-up, saving), and then a cost for each step:

    wall_s = fixed_s + steps_per_rank x batch_per_rank x s_per_image

A regression over the points of one curve finds both costs from work and wall time alone. It never sees the measured
speed, so that the speed which it implies (1 / s_per_image) can be held against the measured one.
"""

import argparse
import sys
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
from scipy import stats
from tabulate import tabulate

from analysis.schema import Column, TableError, conform

CONFIDENCE = 0.95
# A point does not fit where all the others together predict it this badly. The level is for the whole curve (each
# point is tested at MISFIT_LEVEL / points): of ten curves whose points all fit, about one names a point wrongly.
# A stricter level would, with the five or six points that a scaling curve has, find next to nothing.
MISFIT_LEVEL = 0.10
# Fewer points left than this tell nothing about a line: 2 parameters and 1 degree of freedom.
LEAST_POINTS = 3

COLUMNS = (
    Column("model", "text", required=False),
    Column("ranks", "integer", above=0),
    Column("steps_per_rank", "number", above=0),
    Column("batch_per_rank", "number", above=0),
    Column("wall_s", "number", above=0),
    Column("images_per_s_per_rank", "number", required=False, minimum=0),
)
# Other words for the same columns, as reports print them.
SYNONYMS = {
    "gpus": "ranks",
    "workers": "ranks",
    "steps_per_worker": "steps_per_rank",
    "planned_steps_per_worker": "steps_per_rank",
    "batch_per_gpu": "batch_per_rank",
    "batch_per_worker": "batch_per_rank",
    "train_s": "wall_s",
    "wall_time_s": "wall_s",
    "examples_per_s_per_gpu": "images_per_s_per_rank",
    "images_per_s_per_gpu": "images_per_s_per_rank",
}
_NEEDED = ("ranks", "steps_per_rank", "batch_per_rank", "wall_s")


@dataclass(frozen=True)
class Estimate:
    """A number with its interval at 95 % (Student t)."""

    value: float
    lower: float
    upper: float


@dataclass(frozen=True)
class Fit:
    """A line through the points of one curve: wall time over images per rank. Times in seconds."""

    ranks: tuple[int, ...]  # of the points it was made from
    fixed_s: Estimate
    s_per_image: Estimate  # of one rank

    @property
    def images_per_s_per_rank(self) -> Estimate:
        """The speed that the cost per image implies; infinite where the cost may be zero."""
        lower, upper = (1 / cost if cost > 0 else np.inf for cost in (self.s_per_image.upper, self.s_per_image.lower))
        return Estimate(1 / self.s_per_image.value if self.s_per_image.value > 0 else np.inf, lower, upper)

    def wall_s(self, images_per_rank: pd.Series) -> pd.Series:
        """The wall time [s] on the line at each of `images_per_rank`."""
        return self.fixed_s.value + self.s_per_image.value * images_per_rank


@dataclass(frozen=True)
class Explanation:
    """What a curve's wall times say. `points` has one row a number of ranks, with speedups and how well it fits."""

    name: str
    points: pd.DataFrame
    all_points: Fit
    fitting_points: Fit  # all points but those that do not fit; the same object where all do
    notes: tuple[str, ...]

    @property
    def misfits(self) -> pd.DataFrame:
        """The points that the others do not predict."""
        return self.points[self.points["misfit"]]


def read(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """The points in the CSV file `path` and what a reader must know of them.

    Either one row a point, with the columns of `COLUMNS` (or their `SYNONYMS`), or a tidy table (`analysis.schema`).
    Raises TableError naming the file and every column or cell that cannot be used.
    """
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(f"{path}: not a readable CSV file: {getattr(error, 'strerror', None) or error}") from error
    if "quantity" in frame.columns:
        return from_tidy(frame.assign(value=pd.to_numeric(frame["value"])), str(path))
    frame = frame.rename(columns=SYNONYMS)
    names = [column.name for column in COLUMNS]
    ignored = [name for name in frame.columns if name not in names]
    notes = [f"columns not used: {', '.join(ignored)}"] if ignored else []
    return _usable(conform(frame.drop(columns=ignored), COLUMNS, str(path)), str(path), notes)


def from_tidy(table: pd.DataFrame, where: str) -> tuple[pd.DataFrame, list[str]]:
    """The points in a tidy table: its rows for steps, wall time and speed, one point a model, series, rank count, repeat.

    Own records bring their phases along, as columns `phase_<name>_s`. Raises TableError where there is no wall time.
    """
    wanted = ["wall_s", "steps_per_rank", "steps_per_rank_planned", "images_per_s_per_rank", "images_per_s"]
    rows = table[table["quantity"].isin(wanted) | table["quantity"].str.match(r"phase_.*_s$")]
    rows = rows[rows["kind"].isin(["measured", "planned"])]
    if not (rows["quantity"] == "wall_s").any():
        raise TableError(f"{where}: no wall_s among its quantities: there is nothing to split")
    key = [
        name
        for name in ("experiment", "model", "series", "ranks", "batch_per_rank", "repeat", "record")
        if name in rows
    ]
    points = (
        rows.pivot_table("value", key, "quantity", dropna=True, observed=True).reset_index()
        if False
        else _wide(rows, key)
    )
    if "steps_per_rank_planned" in points:
        steps = points.get("steps_per_rank", pd.Series(np.nan, points.index))
        points["steps_per_rank"] = steps.fillna(points["steps_per_rank_planned"])
    if "images_per_s" in points:
        speed = points.get("images_per_s_per_rank", pd.Series(np.nan, points.index))
        points["images_per_s_per_rank"] = speed.fillna(points["images_per_s"] / points["ranks"].astype(float))
    return _usable(points, where, [])
