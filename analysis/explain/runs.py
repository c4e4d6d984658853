"""The points of curves of wall times, from a CSV file or a tidy table."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping
from typing import Any

import numpy as np
import pandas as pd

from analysis import TableError, metrics
from analysis.curves import ranks_in_words
from analysis.user_table import headers
from analysis.user_table.table import UserTable, settings

NEEDED = ("ranks", "steps_per_rank", "batch_per_rank", "wall_s")
SPEED = "images_per_s_per_rank"
POINT = ["ranks", "steps_per_rank", "batch_per_rank"]
PHASES = ("broadcast", "first_step", "warm_up", "timed")
# What tells a run from the others of a tidy table, as far as the table has it.
_RUN = ["experiment", "run", "model", "series", "axis_value", "ranks", "batch_per_rank", "repeat", "seed", "record"]


def read(table: UserTable) -> tuple[pd.DataFrame, list[str]]:
    """The runs in a user's table, and what was left out of them.

    Either one row a run, with NEEDED, or a tidy table (`analysis.table.schema`). Raises TableError naming the file
    where a column is missing that is needed, or no row can be used.
    """
    if table.published is not None:
        return points(table.published, table.path)
    runs = table.runs
    missing = [name for name in NEEDED if name not in runs]
    if missing:
        wanted = "; ".join(f"{name} (also read as it: {', '.join(headers.EXAMPLES[name])})" for name in missing)
        raise TableError(
            "\n".join([f"{table.path}: columns that are needed are missing: {wanted}", *table.interpretation])
        )
    frame = runs.reindex(columns=["model", *NEEDED, SPEED, "repeat", "line"])
    frame["model"] = runs.get("model", "")
    frame["experiment"] = settings(runs)
    frame["ranks"] = frame["ranks"].astype("Int64")
    notes = (
        [] if SPEED in runs else ["no measured speed is given: the time per image is known from the wall times alone"]
    )
    usable, more = _usable(frame, table.path)
    return usable, notes + more


def points(table: pd.DataFrame, where: str) -> tuple[pd.DataFrame, list[str]]:
    """The runs in a tidy table, one row a model, series, number of ranks and repeat; and what was left out of them.

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
    key = [name for name in _RUN if name in rows.columns]
    found = rows.set_index([*key, "quantity"])["value"].unstack("quantity").reset_index()
    if "repeat" in key and found["repeat"].notna().any():
        found = _of_every_repeat(found, [name for name in key if name != "repeat"])
    ranks, batch = found["ranks"].astype(float), found["batch_per_rank"].astype(float)
    have = found.reindex(columns=wanted).astype(float)
    of_images = have["images"] / (ranks * batch)
    found["steps_per_rank"] = of_images.fillna(have["steps_per_rank"]).fillna(have["steps_per_rank_planned"])
    of_job = metrics.per_rank(have["images_per_s"], ranks)
    found["images_per_s_per_rank"] = have["images_per_s_per_rank"].fillna(of_job)
    return _usable(found, where)


def _of_every_repeat(points: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """The runs with what is stated once of a point, without a repeat, as its steps, in each of its repeats."""
    once, quantities = points["repeat"].isna(), [str(name) for name in points if name not in (*key, "repeat")]
    by = [points[name] for name in key]
    stated = points[quantities].where(once).groupby(by, dropna=False).transform("first")
    repeated = points["repeat"].notna().groupby(by, dropna=False).transform("any")
    points = points.assign(**{name: points[name].fillna(stated[name]) for name in quantities if name != "wall_s"})
    return points[~(once & repeated & points["wall_s"].isna())].reset_index(drop=True)


def _usable(points: pd.DataFrame, where: str) -> tuple[pd.DataFrame, list[str]]:
    """The runs that can be used, and a line for each that cannot, or whose speed cannot."""
    notes, needed = [], list(NEEDED)
    points = points.copy()
    if "model" not in points:
        points["model"] = ""
    if "images_per_s_per_rank" not in points:
        points["images_per_s_per_rank"] = np.nan
    for row in points[points[needed].isna().any(axis=1)].to_dict("records"):
        absent = [name for name in needed if pd.isna(row[name])]
        notes.append(f"left out: {_called(row)}: no {', '.join(absent)}")
    points = points.dropna(subset=needed)
    for row in points[points["images_per_s_per_rank"].eq(0)].to_dict("records"):
        notes.append(f"speed not used: {_called(row)}: 0 images/s beside {row['wall_s']:g} s of training")
    points["images_per_s_per_rank"] = points["images_per_s_per_rank"].replace(0, np.nan)
    if points.empty:
        raise TableError(f"{where}: no row has all of {', '.join(needed)}")
    same = [*NEEDED, "model", *(name for name in ("series", "axis_value", "repeat", "seed") if name in points)]
    twice = points.duplicated([name for name in same if name != "repeat" or points["repeat"].notna().any()])
    for row in points[twice].to_dict("records"):
        at = f"line {row['line']}" if "line" in row else where
        notes.append(
            f"left out: {at}: {_called(row)}: its wall time is that of an earlier row to the last digit, a copy? "
            "(repeats that are none: number them in a column 'repeat')"
        )
    return points[~twice].reset_index(drop=True), notes


def _called(row: Mapping[Hashable, Any]) -> str:
    ranks = "? ranks" if pd.isna(row["ranks"]) else ranks_in_words(row["ranks"])
    return f"{row['model'] or 'the curve'}, {ranks}"


def curves(points: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """The points of each curve (one model, one series of local records), and its name."""
    key = [name for name in ("experiment", "model", "series") if name in points]
    for group, rows in points.groupby(key, sort=False, dropna=False):
        yield " ".join(str(part) for part in group if part), rows


def prepared(points: pd.DataFrame) -> pd.DataFrame:
    """The runs of one curve with the columns that the models need.

    Those are images_per_rank, images_per_s_per_rank as a number (NaN: not known), and the number of the `point`.
    """
    runs = points.reset_index(drop=True)
    runs = runs.assign(images_per_rank=(runs["steps_per_rank"] * runs["batch_per_rank"]).astype(float))
    runs["images_per_s_per_rank"] = runs["images_per_s_per_rank"].astype(float)
    return runs.assign(point=runs.groupby(POINT).ngroup())


def phases(points: pd.DataFrame) -> pd.DataFrame:
    """Where the fixed cost of local records went [s], one row a rank count, mean over repeats; empty without phases.

    With `step` = batch_per_rank / images_per_s_per_rank, the time of one steady step: the broadcast; the first step
    less `step`; warm-up and timed steps less `step` each; what the four phases do not account for (ranks that waited in
    different phases); and their sum, the fixed cost that was measured.
    """
    columns = [f"phase_{name}_s" for name in PHASES]
    if any(column not in points for column in columns):
        return pd.DataFrame()
    step = metrics.step_s(points["batch_per_rank"].astype(float), points["images_per_s_per_rank"])
    broadcast, first, warm_up, timed = (points[column] for column in columns)
    split = pd.DataFrame(
        {
            "ranks": points["ranks"],
            "broadcast_s": broadcast,
            "first_step_s": first - step,
            "warm_up_s": warm_up + timed - (points["steps_per_rank"] - 1) * step,
            "other_s": points["wall_s"] - broadcast - first - warm_up - timed,
        }
    )
    split["fixed_s"] = split.drop(columns="ranks").sum(axis=1, skipna=False)
    # Below a microsecond there is only rounding, on either side of 0.
    return split.groupby("ranks", sort=True).mean().dropna().round(6).add(0.0).reset_index()
