"""Curves from a user's table, from the published numbers, and from local records."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any, Literal

import numpy as np
import pandas as pd

from analysis import TableError, metrics, speedups
from analysis.curves import PER_RANK, RATES, SETTING, SOURCE_RUN, TIMES
from analysis.predict.points import Curve, Doubt
from analysis.table import controls
from analysis.table.hardware import COMPUTE, LINK
from analysis.user_table.rates import rates
from analysis.user_table.table import UserTable, settings
from train.record import backends

_LEVEL_OF_ENDS = 1.96 * 2  # standard errors between the ends of a 95 % interval
_SERVER = "parameter_server"
_UPDATE = r"variable update: ([^;]+)"
_OF_A_SERVER = Doubt("variables are updated by a parameter server, which no form here describes")


Exchange = Literal["allreduce", "server"]
EXCHANGES: tuple[Exchange, ...] = ("allreduce", "server")


def file(table: UserTable, exchange: Exchange | None = None) -> list[Curve]:
    """The curves in a user's table: one a setting and batch per rank, or a setting where the global batch is kept.

    Their rates are what `user_table.rates` makes of the table; repeats are averaged. The ends `low` and `high` are
    those of a 95 % interval. `exchange`: how gradients are exchanged, as far as it is known. Raises TableError naming
    the line where ends do not hold their rate, or that nothing is measured on two numbers of ranks.
    """
    doubts = (_OF_A_SERVER,) if exchange == "server" else ()
    found = published(table.published) if table.published is not None else list(_of_runs(table))
    if not found:
        raise TableError(
            f"{table.path}: no curve is measured on two numbers of ranks; allowed: two or more, three to predict"
        )
    return [replace(curve, may_saturate=exchange is None, doubts=(*curve.doubts, *doubts)) for curve in found]


def _of_runs(table: UserTable) -> Iterator[Curve]:
    """The curves of the runs of a table."""
    runs = table.runs.join(rates(table.runs).rename(columns={"work": "work_of_rate"}))
    runs = runs[runs["rate"].gt(0)]
    _within_ends(runs, table.path)
    texts = {
        name: runs[name] if name in runs else pd.Series("", runs.index)
        for name in ("model", "dataset", "gpu", "machine")
    }
    texts["setting"] = settings(runs)
    for names, of in runs.groupby([*texts.values()], sort=False):
        model, *words = map(str, names)
        points = _points_of(of)
        per_node = _numbers(of, "ranks_per_node")
        for batch, kept in _kept(points):
            if kept["ranks"].nunique() < 2:
                continue
            name = ", ".join(filter(None, (*words, "" if math.isnan(batch) else f"batch {batch:g}")))
            of_node = float(np.nanmax(per_node)) if np.isfinite(per_node).any() else math.nan
            work = str(of["work_of_rate"].iloc[0])
            yield _curve(kept, model=model, name=name, source=table.path, ranks_per_node=of_node, work=work)


def _points_of(runs: pd.DataFrame) -> pd.DataFrame:
    """The points of runs: repeats of one size averaged, with how many there are in n."""
    columns = {name: _numbers(runs, name) for name in ("ranks", "batch_per_rank", "n", "low", "high")}
    points = pd.DataFrame({**columns, "images_per_s": runs["rate"].to_numpy(float)}, runs.index)
    points["spread"] = (points["high"] - points["low"]) / _LEVEL_OF_ENDS / points["images_per_s"]
    size = points.groupby(["ranks", "batch_per_rank"], dropna=False)
    count = size["n"].transform("sum").where(points["n"].notna(), size["ranks"].transform("size").astype(float))
    alone = size["ranks"].transform("size").eq(1)
    points = points.assign(
        n=points["n"].where(alone, count),
        images_per_s=size["images_per_s"].transform("mean"),
        spread=points["spread"].where(alone),
    )
    return points.drop_duplicates(["ranks", "batch_per_rank"])


def _within_ends(runs: pd.DataFrame, path: str) -> None:
    """Raises TableError for a row whose interval does not hold its rate."""
    if not {"low", "high"} <= {*runs}:
        return
    out = runs[~runs["low"].fillna(0).le(runs["rate"]) | ~runs["high"].fillna(np.inf).ge(runs["rate"])]
    if len(out):
        row = out.iloc[0]
        raise TableError(
            f"{row['file']}, line {row['line']}: low, high: {row['low']:g}, {row['high']:g} given; allowed: ends of an "
            f"interval that holds the rate ({row['rate']:g})"
        )


def _numbers(rows: pd.DataFrame, name: str) -> np.ndarray:
    return rows[name].to_numpy(float, na_value=math.nan) if name in rows else np.full(len(rows), math.nan)


def _kept(points: pd.DataFrame) -> Iterator[tuple[float, pd.DataFrame]]:
    """The points of each curve of one setting, with its batch per rank: NaN where it is not known or not kept."""
    batch = points["batch_per_rank"]
    whole = (batch * points["ranks"]).tolist()
    if metrics.shared_batch(points["ranks"].tolist(), whole) == "global_batch" or batch.isna().all():
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
