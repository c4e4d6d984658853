"""The points of curves of wall times, from a CSV file or a tidy table."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import TableError, metrics
from analysis.table import schema
from analysis.table.schema import Column

COLUMNS = (
    Column("model", "text", required=False),
    Column("ranks", "integer", above=0),
    Column("steps_per_rank", "number", above=0),
    Column("batch_per_rank", "number", above=0),
    Column("wall_s", "number", above=0),
    Column("images_per_s_per_rank", "number", required=False, minimum=0),
)
# Other names of the same columns, as reports print them.
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
_NEEDED = ["ranks", "steps_per_rank", "batch_per_rank", "wall_s"]
PHASES = ("broadcast", "first_step", "warm_up", "timed")


def read(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """The points in the CSV file `path`, and what was left out of them.

    Either one row a point, with the columns `COLUMNS` (or their `SYNONYMS`), or a tidy table (`analysis.table.schema`).
    Raises TableError naming the file and every column or cell that cannot be used.
    """
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(f"{path}: not a readable CSV file: {getattr(error, 'strerror', None) or error}") from error
    if "quantity" in frame.columns:
        return points(schema.check(schema.read_csv(path, schema.COLUMNS), str(path)), str(path))
    frame = frame.rename(columns=SYNONYMS)
    names = [column.name for column in COLUMNS]
    ignored = [str(name) for name in frame.columns if name not in names]
    notes = [f"columns not used: {', '.join(ignored)}"] if ignored else []
    usable, more = _usable(schema.conform(frame.drop(columns=ignored), COLUMNS, str(path)), str(path))
    return usable, notes + more


def points(table: pd.DataFrame, where: str) -> tuple[pd.DataFrame, list[str]]:
    """The points in a tidy table, one row a model, series, number of ranks and repeat; and what was left out of them.

    Steps per rank are those within the wall time: images / global batch where the images are known (local records:
    first step, warm-up and timed steps), else as stated, else as planned. Local records bring their phases along.
    Raises TableError where no row has a wall time.
    """
    rows = table[table["kind"].isin(["measured", "planned"]) & table["ranks"].notna()]
    if "round" in rows:
        rows = rows[rows["round"].isna()]  # a round has no wall time of its own
    wanted = ["wall_s", "images", "steps_per_rank", "steps_per_rank_planned", "images_per_s_per_rank", "images_per_s"]
    rows = rows[rows["quantity"].isin([*wanted, *(f"phase_{name}_s" for name in PHASES)])]
    if not (rows["quantity"] == "wall_s").any():
        raise TableError(f"{where}: no wall_s among its quantities: there is no wall time to split")
    key = ["experiment", "model", "series", "axis_value", "ranks", "batch_per_rank", "repeat", "seed", "record"]
    key = [name for name in key if name in rows.columns]
    found = rows.set_index([*key, "quantity"])["value"].unstack("quantity").reset_index()
    ranks, batch = found["ranks"].astype(float), found["batch_per_rank"].astype(float)
    have = found.reindex(columns=wanted).astype(float)
    of_images = have["images"] / (ranks * batch)
    found["steps_per_rank"] = of_images.fillna(have["steps_per_rank"]).fillna(have["steps_per_rank_planned"])
    of_job = metrics.per_rank(have["images_per_s"], ranks)
    found["images_per_s_per_rank"] = have["images_per_s_per_rank"].fillna(of_job)
    return _usable(found, where)


def _usable(points: pd.DataFrame, where: str) -> tuple[pd.DataFrame, list[str]]:
    """The points that can be used, and a line for each that cannot, or whose speed cannot."""
    notes = []
    points = points.copy()
    if "model" not in points:
        points["model"] = ""
    if "images_per_s_per_rank" not in points:
        points["images_per_s_per_rank"] = np.nan
        notes.append("no measured speed is given: there is nothing to compare the implied speed with")
    for row in points[points[_NEEDED].isna().any(axis=1)].to_dict("records"):
        absent = [name for name in _NEEDED if pd.isna(row[name])]
        notes.append(f"left out: {_called(row)}: no {', '.join(absent)}")
    points = points.dropna(subset=_NEEDED)
    for row in points[points["images_per_s_per_rank"].eq(0)].to_dict("records"):
        notes.append(f"speed not used: {_called(row)}: 0 images/s beside {row['wall_s']:g} s of training")
    points["images_per_s_per_rank"] = points["images_per_s_per_rank"].replace(0, np.nan)
    if points.empty:
        raise TableError(f"{where}: no row has all of {', '.join(_NEEDED)}")
    same = [*_NEEDED, "model", *(name for name in ("series", "axis_value", "repeat", "seed") if name in points)]
    twice = points[points.duplicated(same)]
    if not twice.empty:
        raise TableError(f"{where}: duplicate point: {_called(twice.to_dict('records')[0])}")
    return points.reset_index(drop=True), notes


def _called(row: Mapping[Hashable, Any]) -> str:
    ranks = "?" if pd.isna(row["ranks"]) else row["ranks"]
    return f"{row['model'] or 'the curve'}, {ranks} ranks"


def curves(points: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The points of each curve (one model, one series of local records), and its name."""
    key = [name for name in ("experiment", "model", "series") if name in points]
    for group, rows in points.groupby(key, sort=False, dropna=False):
        yield " ".join(str(part) for part in group if part), rows
