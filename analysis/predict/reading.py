"""Curves from a CSV file, from the published numbers, and from local records."""

from __future__ import annotations

import csv
import math
from collections.abc import Collection, Hashable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis import TableError, metrics, speedups
from analysis.curves import PER_RANK, RATES, SETTING, SOURCE_RUN, TIMES
from analysis.predict.points import Curve, Doubt
from analysis.table import controls, headers, schema
from analysis.table.limits import COMPUTE, LINK
from analysis.table.schema import Column
from train.record import backends

COLUMNS = (
    Column("model", "text", required=False),
    Column("ranks", "integer", blank=False, above=0),
    Column("images_per_s", "number", blank=False, above=0),
    Column("ranks_per_node", "integer", required=False, above=0),
    Column("batch_per_rank", "integer", required=False, above=0),
    Column("n", "integer", required=False, above=0),
    Column("low", "number", required=False, above=0),
    Column("high", "number", required=False, above=0),
)
# What a file may have instead of a column: the same of one rank, or of all.
_INSTEAD = {"images_per_s": "images_per_s_per_rank", "batch_per_rank": "global_batch"}
# What a header is taken for that does not say whether it is of one rank or of all.
_TAKEN = {"images_per_s": "of the whole job", "batch_per_rank": "of one rank"}
_LEVEL_OF_ENDS = 1.96 * 2  # standard errors between the ends of a 95 % interval
_SERVER = "parameter_server"
_UPDATE = r"variable update: ([^;]+)"
_OF_A_SERVER = Doubt("variables are updated by a parameter server, which no form here describes")


Exchange = Literal["allreduce", "server"]
EXCHANGES: tuple[Exchange, ...] = ("allreduce", "server")


def file(path: Path, exchange: Exchange | None = None) -> tuple[list[Curve], list[str]]:
    """The curves in a CSV file, one row a point, and the columns that were not used.

    One curve a model and batch per rank; of a file that keeps the global batch one a model. The ends `low` and `high`
    are those of a 95 % interval of images_per_s. `exchange`: how gradients are exchanged, as far as it is known. Raises
    TableError naming the file, the line, the column, what was given and what is allowed.
    """
    frame = _frame(path)
    named, notes = _named([*frame.columns])
    for column in COLUMNS:
        if column.required and column.name not in named.values():
            raise TableError(
                f"{path}: line 1: column '{column.name}' is missing; given: {', '.join(frame.columns)}; also read as "
                f"it: {', '.join(headers.EXAMPLES[column.name])}"
            )
    rows = schema.conform(frame[[*named]].rename(columns=named), COLUMNS, str(path))
    rows = _of_the_job(rows, {headers.name(header) for header in named})
    _whole(rows, path)
    models = rows["model"] if "model" in rows else pd.Series("", rows.index)
    doubts = (_OF_A_SERVER,) if exchange == "server" else ()
    found = [curve for model, of in rows.groupby(models, sort=False) for curve in _of_file(str(model), of, path)]
    return [replace(curve, may_saturate=exchange is None, doubts=doubts) for curve in found], notes


def _frame(path: Path) -> pd.DataFrame:
    """The cells of a file as text under its own headers; separated by comma, semicolon or tab."""
    try:
        head = path.read_text().partition("\n")[0]
        separator = max(",;\t", key=head.count)
        frame = pd.read_csv(path, sep=separator, dtype=str, keep_default_na=False, skipinitialspace=True)
    except (OSError, UnicodeDecodeError, csv.Error, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(f"{path}: not a readable CSV file: {getattr(error, 'strerror', None) or error}") from error
    return frame


def _named(given: Sequence[str]) -> tuple[dict[str, str], list[str]]:
    """The column that each header of a file is read as, without headers that are not used; and what to note of them."""
    columns, known = {column.name for column in COLUMNS}, {*map(headers.name, given)}
    instead = {other: name for name, other in _INSTEAD.items() if name not in known}
    named, notes = {}, []
    for header in given:
        name = headers.name(header)
        meant = headers.meanings(header)
        if meant and known.isdisjoint(meant):
            name = next(one for one in meant if one in columns)
            notes.append(f"'{header}' is taken as that {_TAKEN[name]}; if it is not, call it {_INSTEAD[name]}")
        name = instead.get(name, name)
        if name in columns:
            named[header] = name
    if unused := [header for header in given if header not in named]:
        notes.append(f"columns not used: {', '.join(unused)}")
    return named, notes


def _of_the_job(rows: pd.DataFrame, given: Collection[str]) -> pd.DataFrame:
    """Rows of `COLUMNS` with the rate of the whole job and the batch of a rank. given: the names of the file's columns.

    Where a file has the rate of a rank, so are the ends of its interval.
    """
    ranks = rows["ranks"].astype(float)
    if _INSTEAD["images_per_s"] in given:
        of_rank = [name for name in ("images_per_s", "low", "high") if name in rows]
        rows = rows.assign(**{name: metrics.whole_job(rows[name], ranks) for name in of_rank})
    if _INSTEAD["batch_per_rank"] in given:
        rows = rows.assign(batch_per_rank=metrics.per_rank(rows["batch_per_rank"].astype(float), ranks))
    return rows


def _whole(rows: pd.DataFrame, path: Path) -> None:
    """Raises TableError where the points are no curve: too few, given twice, or not within their interval."""
    if len(rows) < 2:
        given = f"line 2: ranks: {rows['ranks'].iloc[0]} given, the only point" if len(rows) else "ranks: no point"
        raise TableError(f"{path}: {given}; allowed: two or more numbers of ranks, three to predict")
    key = [name for name in ("model", "ranks", "batch_per_rank") if name in rows]
    twice = rows[rows.duplicated(key)]
    if len(twice):
        again = twice.iloc[0]
        first = rows.index[(rows[key] == again[key]).all(axis=1)][0]
        raise TableError(
            f"{path}: line {twice.index[0] + 2}: ranks: {again['ranks']:g} given, as in line {first + 2}; allowed: "
            "each number of ranks once a model and batch per rank (of repeats their mean, and how many in column n)"
        )
    if {"low", "high"} <= {*rows}:
        out = rows[
            ~rows["low"].fillna(0).le(rows["images_per_s"]) | ~rows["high"].fillna(np.inf).ge(rows["images_per_s"])
        ]
        if len(out):
            row = out.iloc[0]
            raise TableError(
                f"{path}: line {out.index[0] + 2}: low, high: {row['low']:g}, {row['high']:g} given; allowed: ends of "
                f"an interval that holds images_per_s ({row['images_per_s']:g})"
            )


def _of_file(model: str, rows: pd.DataFrame, path: Path) -> Iterator[Curve]:
    """The curves of one model in a file."""
    cells = {name: _numbers(rows, name) for name in ("ranks", "images_per_s", "batch_per_rank", "n", "low", "high")}
    table = pd.DataFrame(cells, rows.index)
    table["spread"] = (table["high"] - table["low"]) / _LEVEL_OF_ENDS / table["images_per_s"]
    per_node = _numbers(rows, "ranks_per_node")
    of_node = float(np.nanmax(per_node)) if np.isfinite(per_node).any() else math.nan
    for batch, of in _kept(table):
        name = "" if math.isnan(batch) else f"batch {batch:g}"
        yield _curve(of, model=model, name=name, source=str(path), ranks_per_node=of_node)


def _numbers(rows: pd.DataFrame, name: str) -> np.ndarray:
    return rows[name].to_numpy(float, na_value=math.nan) if name in rows else np.full(len(rows), math.nan)


def _kept(points: pd.DataFrame) -> Iterator[tuple[float, pd.DataFrame]]:
    """The points of each curve of one setting, with its batch per rank: NaN where it is not known or not kept."""
    batch = points["batch_per_rank"]
    whole = (batch * points["ranks"]).tolist()
    if metrics.kept(points["ranks"].tolist(), whole) == "global_batch" or batch.isna().all():
        yield math.nan, points
        return
    yield from ((float(str(size)), of) for size, of in points.groupby("batch_per_rank", dropna=False))


def _curve(points: pd.DataFrame, **known: Any) -> Curve:
    """A curve of points with the columns ranks, images_per_s, and where they are known batch_per_rank, spread, n."""
    points = points.sort_values(["ranks", "batch_per_rank"], kind="stable")
    batch = points["batch_per_rank"].to_numpy(float)
    return Curve(
        ranks=points["ranks"].to_numpy(float),
        batch=np.where(np.isfinite(batch).all(), batch, 1.0),
        images_per_s=points["images_per_s"].to_numpy(float),
        spread=points["spread"].to_numpy(float),
        repeats=np.nan_to_num(points["n"].to_numpy(float), nan=1.0),
        **known,
    )


def published(table: pd.DataFrame) -> list[Curve]:
    """The curves of throughput in the published tidy table; where a report copied a page, those of the page.

    Runs that differ in how variables are updated are different curves; a speed printed as 0 is no measurement.
    """
    rows = table[table["kind"].eq("measured") & table["quantity"].isin([*RATES, *PER_RANK]) & table["value"].gt(0)]
    copied = rows["report"].isin(rows.loc[rows["run"].eq(SOURCE_RUN), "report"]) & rows["run"].ne(SOURCE_RUN)
    return tidy(rows[~copied & rows["ranks"].notna()])


def timed(rows: pd.DataFrame) -> Curve:
    """The curve of times of equal work in rows of a tidy table; its rate is the work per second, one unit of it a time.

    Without any row a curve without points.
    """
    rows = rows[rows["quantity"].isin(TIMES)]
    if rows.empty:
        empty = pd.DataFrame(columns=["ranks", "images_per_s", "batch_per_rank", "spread", "n"], dtype=float)
        return _curve(empty, model="", name="", source="")
    return _group(_points(rows.assign(value=metrics.rate(1.0, rows["value"]), update="")))


def tidy(rows: pd.DataFrame) -> list[Curve]:
    """The curves of rates in rows of a tidy table: two numbers of ranks or more."""
    rows = rows.assign(update=rows["note"].str.extract(_UPDATE, expand=False).fillna(""))
    found = []
    for _, of in _points(rows).groupby([*SETTING, "experiment", "update", "quantity"], dropna=False, sort=False):
        found += [_group(kept) for _, kept in _kept(of) if kept["ranks"].nunique() > 1]
    return found


def _points(rows: pd.DataFrame) -> pd.DataFrame:
    """Rows of a tidy table with the columns of `_curve`."""
    ranks, batch, per_node = (rows[name].astype(float) for name in ("ranks", "batch_per_rank", "ranks_per_node"))
    rate = rows["value"].where(~rows["quantity"].isin(PER_RANK), metrics.whole_job(rows["value"], ranks))
    known = {"ranks": ranks, "batch_per_rank": batch, "ranks_per_node": per_node, "images_per_s": rate}
    return rows.assign(**known, spread=math.nan, n=1.0)


def _group(points: pd.DataFrame) -> Curve:
    """One curve from points of a tidy table; repeats are averaged."""
    first, update = points.iloc[0], str(points["update"].iloc[0])
    size = ["ranks", "batch_per_rank"]
    if points.duplicated(size).any():
        repeats = points.groupby(size, dropna=False)["images_per_s"]
        points = points.assign(images_per_s=repeats.transform("mean"), n=repeats.transform("size").astype(float))
        points = points.drop_duplicates(size)
    batch = points["batch_per_rank"].dropna().unique()
    words = [first["gpu"], first["machine"], first["dataset"], f"batch {batch[0]:g}" if len(batch) == 1 else "", update]
    return _curve(
        points,
        model=str(first["model"] or first["run"]),
        name=", ".join(str(word) for word in words if word),
        source=str(first["machine"]),
        ranks_per_node=_per_node(points),
        doubts=(_OF_A_SERVER,) if update.startswith(_SERVER) else (),
    )


def _per_node(rows: pd.DataFrame) -> float:
    """The ranks of a full node, where a tidy table has them."""
    known = rows["ranks_per_node"].astype(float)
    return float(known.max()) if known.notna().any() else math.nan


# What the points of a curve and the runs without allreduce share.
_SAME = ["model", "image_size", "precision", "machine", "measure", "batch_per_rank", "ranks_per_node"]


def local(table: pd.DataFrame) -> list[Curve]:
    """The curves of one experiment in the table of local records, one a series."""
    measured = table[table["kind"].eq("measured")]
    runs, limits_of = speedups.rates(measured), measured[measured["quantity"].isin((COMPUTE, LINK))]
    without = speedups.rates(table[table["kind"].eq("control")])
    return [
        _of_series(of, without, limits_of[limits_of["series"].eq(series)])
        for series, of in runs.groupby("series", sort=False)
        if of["ranks"].nunique() > 1
    ]


def _of_series(runs: pd.DataFrame, without: pd.DataFrame, limits_of: pd.DataFrame) -> Curve:
    """One series of local records, with the interval of each point, the step without allreduce, and the limits."""
    first = runs.to_dict("records")[0]
    points = speedups.curve(runs, "ranks").rename(columns={"size": "ranks", "rate": "images_per_s"})
    batch = runs.groupby(runs["ranks"].astype(float))["batch_per_rank"].first().astype(float)
    points["batch_per_rank"] = points["ranks"].map(batch)
    points["spread"] = (points["rate_high"] - points["rate_low"]) / _LEVEL_OF_ENDS / points["images_per_s"]
    told = f"batch {batch.iloc[0]:g}" if batch.nunique() == 1 else ""
    return _curve(
        points,
        model=str(first["model"]),
        name=", ".join(str(word) for word in (first["machine"], told, first["swept"]) if word),
        source=str(first["machine"]),
        ranks_per_node=_per_node(runs),
        doubts=_doubts(runs),
        compute_s=_compute_s(without, first),
        parameters=_known(first["parameters"]),
        link_mbit_per_s=_known(first["link_mbit_per_s"]),
        **_limits(limits_of),
        series=str(first["series"]),
    )


def _limits(rows: pd.DataFrame) -> dict[str, float]:
    """What limits a rank and an exchange, from the limits of the points: of all sizes the least strict.

    A product of matrices and a stream are measured once a launch, when something may have disturbed them.
    """
    ranks, batch = rows["ranks"].astype(float), rows["global_batch"].astype(float)
    of_rank = metrics.per_rank(rows["value"], ranks)[rows["quantity"].eq(COMPUTE)]
    ring_s = (metrics.step_s(batch, rows["value"]) / metrics.hops(ranks))[rows["quantity"].eq(LINK)]
    return {"compute_limit_images_per_s": float(of_rank.max()), "ring_s": float(ring_s.min())}


def _known(cell: Any) -> float:
    return math.nan if pd.isna(cell) else float(cell)


def _doubts(runs: pd.DataFrame) -> tuple[Doubt, ...]:
    """Why points of local records are no measure of scaling, each reason with its numbers of ranks."""
    shared = runs["cores_shared"].fillna(False).astype(bool)
    reasons = {"ranks shared cores": shared, "the control without allreduce is off": controls.lost(runs) & ~shared}
    found = tuple(
        Doubt(reason, tuple(int(n) for n in sorted(runs.loc[which, "ranks"].unique())))
        for reason, which in reasons.items()
        if which.any()
    )
    served = runs["backend"].isin(backends.ASYNCHRONOUS | backends.TOWERS).any()
    return (*found, _OF_A_SERVER) if served else found


def _compute_s(without: pd.DataFrame, first: dict[Hashable, Any]) -> float:
    """The step of the largest control without allreduce that has the setting and the batch of a curve; else NaN."""
    if without.empty:
        return math.nan
    same = without
    for name in _SAME:
        same = same[same[name].eq(first[name]) | (same[name].isna() & bool(pd.isna(first[name])))]
    if same.empty:
        return math.nan
    largest = same[same["ranks"].eq(same["ranks"].max())]
    of_rank = metrics.per_rank(speedups.rate_of(largest).value, int(largest["ranks"].iloc[0]))
    return float(metrics.step_s(float(first["batch_per_rank"]), of_rank))
