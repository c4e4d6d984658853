"""Curves from a user's table, from the published numbers, and from local records."""

import math
import re
from collections.abc import Hashable, Iterator
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from analysis import PUBLISHED, TableError, labels, metrics, speedups
from analysis.curves import PER_RANK, RATES, SETTING, SOURCE_RUN
from analysis.predict import SHARED_CORES, Curve, Obstacle
from analysis.table import controls
from analysis.table.hardware import COMPUTE, LINK
from analysis.user_table.rates import rates
from analysis.user_table.table import UserTable
from analysis.user_table.tidy import settings
from train.record import recorded_config

_ERRORS_BETWEEN_ENDS = 1.96 * 2  # standard errors between the ends of a 95 % interval
_SERVER = "parameter_server"
_UPDATE = r"variable update: ([^;]+)"
_BY_SERVER = Obstacle("variables are updated by a parameter server, whose curve bends beyond the points")


Exchange = Literal["allreduce", "server"]
EXCHANGES: tuple[Exchange, ...] = get_args(Exchange)


def file(table: UserTable, exchange: Exchange | None = None) -> list[Curve]:
    """Return the curves in a user's table: one a setting and batch per rank, or a setting with one global batch.

    Their rates are those of `user_table.rates`; repeats are averaged. The ends `low` and `high` are those of a 95 %
    interval. `exchange`: how gradients are exchanged, if it is known. Raises TableError naming a line whose ends
    do not hold its rate, or if nothing is measured on two numbers of ranks.
    """
    obstacles = (_BY_SERVER,) if exchange == "server" else ()
    curves = published(table.published) if table.published is not None else list(_run_curves(table))
    if not curves:
        raise TableError(
            f"{table.path}: no curve is measured on two numbers of ranks; allowed: two or more, three to predict"
        )
    return [replace(curve, may_saturate=exchange is None, obstacles=(*curve.obstacles, *obstacles)) for curve in curves]


def _run_curves(table: UserTable) -> Iterator[Curve]:
    runs = table.runs.join(rates(table.runs).rename(columns={"work": "rate_work"}))
    runs = runs[runs["rate"].gt(0)]
    _check_ends(runs)
    names = ("model", "dataset", "gpu", "machine")
    texts = [runs[name] if name in runs else pd.Series("", runs.index) for name in names]
    for texts_of_curve, rows in runs.groupby([*texts, settings(runs)], sort=False):
        model, *setting = map(str, texts_of_curve)
        per_node, work = _numbers(rows, "ranks_per_node"), str(rows["rate_work"].iloc[0])
        full_node = float(np.nanmax(per_node)) if np.isfinite(per_node).any() else math.nan
        for batch, points in _by_batch(_run_points(rows)):
            if points["ranks"].nunique() > 1:
                name = ", ".join(filter(None, (*setting, "" if math.isnan(batch) else f"batch {batch:g}")))
                yield _curve(
                    points, model=model, name=name, source=table.path, ranks_per_node=full_node, unit=f"{work or 1}/s"
                )


def _run_points(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the points of runs: repeats of one size averaged."""
    columns = {name: _numbers(runs, name) for name in ("ranks", "batch_per_rank", "low", "high")}
    points = pd.DataFrame({**columns, "images_per_s": runs["rate"].to_numpy(float)}, runs.index)
    points["spread"] = (points["high"] - points["low"]) / _ERRORS_BETWEEN_ENDS / points["images_per_s"]
    size = points.groupby(["ranks", "batch_per_rank"], dropna=False)
    alone = size["ranks"].transform("size").eq(1)
    points = points.assign(images_per_s=size["images_per_s"].transform("mean"), spread=points["spread"].where(alone))
    return points.drop_duplicates(["ranks", "batch_per_rank"])


def _check_ends(runs: pd.DataFrame) -> None:
    """Raise TableError for a row whose interval does not hold its rate."""
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


def _by_batch(points: pd.DataFrame) -> Iterator[tuple[float, pd.DataFrame]]:
    """Yield the batch per rank of each curve of one setting, NaN where it is not known or varies; and its points."""
    batch = points["batch_per_rank"]
    whole = (batch * points["ranks"]).tolist()
    if metrics.shared_batch(points["ranks"].tolist(), whole) == "global_batch" or batch.isna().all():
        yield math.nan, points
        return
    yield from ((float(str(size)), rows) for size, rows in points.groupby("batch_per_rank", dropna=False))


def _curve(points: pd.DataFrame, **fields: Any) -> Curve:
    """Return a curve of points with the columns ranks, images_per_s, batch_per_rank, spread (NaN: not known)."""
    points = points.sort_values(["ranks", "batch_per_rank"], kind="stable")
    batch = points["batch_per_rank"].to_numpy(float)
    return Curve(
        ranks=points["ranks"].to_numpy(float),
        batch=np.where(np.isfinite(batch).all(), batch, 1.0),
        images_per_s=points["images_per_s"].to_numpy(float),
        spread=points["spread"].to_numpy(float),
        **fields,
    )


def published(table: pd.DataFrame) -> list[Curve]:
    """Return the curves of throughput in the published tidy table; if a report copied a page, those of the page.

    Runs that differ in how variables are updated are different curves; a speed printed as 0 is no measurement.
    """
    rows = table[table["kind"].eq("measured") & table["quantity"].isin([*RATES, *PER_RANK]) & table["value"].gt(0)]
    copied = rows["report"].isin(rows.loc[rows["run"].eq(SOURCE_RUN), "report"]) & rows["run"].ne(SOURCE_RUN)
    return tidy(rows[~copied & rows["ranks"].notna()])


def azure() -> list[Curve]:
    """Return the curves of tf_cnn_benchmarks on Azure, which no report has: they are for calibration."""
    rows = pd.read_csv(PUBLISHED / "curves" / "azure.csv").assign(batch_per_rank=64.0, spread=math.nan)
    return [
        _curve(points, model=model, name=machine, source=_family(str(machine)), ranks_per_node=4.0)
        for (machine, model), points in rows.groupby(["machine", "model"], sort=False)
    ]


def _family(machine: str) -> str:
    """Return the network of a machine of Azure, without its GPU: the curves over one network are not independent."""
    return re.sub(r" P\d+", "", machine)


def tidy(rows: pd.DataFrame) -> list[Curve]:
    """Return the curves of rates in rows of a tidy table that have two numbers of ranks or more."""
    rows = rows.assign(update=rows["note"].str.extract(_UPDATE, expand=False).fillna(""))
    settings_of_rows = _points(rows).groupby([*SETTING, "experiment", "update", "quantity"], dropna=False, sort=False)
    return [
        _group(points)
        for _, one_setting in settings_of_rows
        for _, points in _by_batch(one_setting)
        if points["ranks"].nunique() > 1
    ]


def _points(rows: pd.DataFrame) -> pd.DataFrame:
    """Return rows of a tidy table with the columns of `_curve`."""
    ranks, batch, per_node = (rows[name].astype(float) for name in ("ranks", "batch_per_rank", "ranks_per_node"))
    rate = rows["value"].where(~rows["quantity"].isin(PER_RANK), metrics.job_total(rows["value"], ranks))
    return rows.assign(ranks=ranks, batch_per_rank=batch, ranks_per_node=per_node, images_per_s=rate, spread=math.nan)


def _group(points: pd.DataFrame) -> Curve:
    """Return one curve from points of a tidy table; repeats are averaged."""
    first, update = points.iloc[0], str(points["update"].iloc[0])
    size = ["ranks", "batch_per_rank"]
    if points.duplicated(size).any():
        mean = points.groupby(size, dropna=False)["images_per_s"].transform("mean")
        points = points.assign(images_per_s=mean).drop_duplicates(size)
    batch = points["batch_per_rank"].dropna().unique()
    setting = [first["gpu"], first["machine"], first["dataset"], f"batch {batch[0]:g}" * (len(batch) == 1), update]
    return _curve(
        points,
        model=str(first["model"] or first["run"]),
        name=", ".join(str(part) for part in setting if part),
        source=str(first["machine"]),
        ranks_per_node=float(points["ranks_per_node"].max()),
        obstacles=(_BY_SERVER,) if update.startswith(_SERVER) else (),
    )


# The columns that the points of a curve and the runs without allreduce share.
_SAME = ["model", "image_size", "precision", "machine", "measure", "batch_per_rank", "ranks_per_node"]


def local(table: pd.DataFrame) -> list[Curve]:
    """Return the curves of one experiment in the table of local records, one a series."""
    measured = table[table["kind"].eq("measured")]
    runs, hardware = speedups.rates(measured), measured[measured["quantity"].isin((COMPUTE, LINK))]
    without_allreduce = speedups.rates(table[table["kind"].eq("control")])
    return [
        _series_curve(rows, without_allreduce, hardware[hardware["series"].eq(series)])
        for series, rows in runs.groupby("series", sort=False)
        if rows["ranks"].nunique() > 1
    ]


def _series_curve(runs: pd.DataFrame, without_allreduce: pd.DataFrame, hardware: pd.DataFrame) -> Curve:
    """Return one series of local records, with the interval of each point, and what bounds its steps."""
    first = runs.to_dict("records")[0]
    points = speedups.curve(runs, "ranks").rename(columns={"size": "ranks", "rate": "images_per_s"})
    program = first["backend"] == recorded_config.PROGRAM
    # A program without a batch per rank divides its global batch among the ranks.
    shares = runs["batch_per_rank"].astype(float).fillna(runs["global_batch"].astype(float) / runs["ranks"])
    batch = shares.groupby(runs["ranks"].astype(float)).first()
    points["batch_per_rank"] = points["ranks"].map(batch)
    points["spread"] = (points["rate_high"] - points["rate_low"]) / _ERRORS_BETWEEN_ENDS / points["images_per_s"]
    alike = batch.nunique() == 1 and not (program and batch.iloc[0] == 1)
    setting = (first["machine"], f"batch {batch.iloc[0]:g}" * alike, first["swept"])
    return _curve(
        points,
        model=str(first["model"]),
        name=", ".join(str(part) for part in setting if part),
        source=str(first["machine"]),
        ranks_per_node=float(runs["ranks_per_node"].astype(float).max()),  # of a full node
        obstacles=_obstacles(runs),
        compute_s=_compute_s(without_allreduce, first),
        **{
            name: math.nan if pd.isna(first[name]) else float(first[name]) for name in ("parameters", "link_mbit_per_s")
        },
        **_bounds(hardware),
        series=str(first["series"]),
        measure=str(first["measure"]),
        max_nodes=math.inf if pd.isna(first["max_nodes"]) else float(first["max_nodes"]),
        finer_nodes=_finer_nodes(first),
        unit=labels.rate_unit(runs),
    )


def _finer_nodes(first: dict[Hashable, Any]) -> int:
    """Return into how many nodes the machine of a point can be divided for a curve of more sizes; 0: it cannot.

    Nodes of a user's program are not emulated: each has a core or more.
    """
    if pd.isna(first["max_nodes"]) or first["device"] == "gpu":
        return 0
    finer = 4 * first["max_nodes"]
    if first["backend"] == recorded_config.PROGRAM:
        finer = min(finer, first["max_nodes"] * first["ranks_per_node"] * first["threads_per_rank"])
    return int(finer) if finer > first["max_nodes"] else 0


def _bounds(rows: pd.DataFrame) -> dict[str, float]:
    """Return the bounds of a rank and of an exchange: the least strict of all sizes.

    A product of matrices and a stream are measured once a launch, when something may have disturbed them.
    """
    ranks, batch = rows["ranks"].astype(float), rows["global_batch"].astype(float)
    rates = metrics.per_rank(rows["value"], ranks)[rows["quantity"].eq(COMPUTE)]
    ring_s = (metrics.step_s(batch, rows["value"]) / metrics.hops(ranks))[rows["quantity"].eq(LINK)]
    return {"compute_limit_images_per_s": float(rates.max()), "ring_s": float(ring_s.min())}


def _obstacles(runs: pd.DataFrame) -> tuple[Obstacle, ...]:
    """Return why points of local records are not valid as a scaling result, each reason with its numbers of ranks."""
    shared = runs["cores_shared"].fillna(False).astype(bool)
    reasons = {SHARED_CORES: shared, "the control without allreduce is off": controls.invalid(runs) & ~shared}
    obstacles = tuple(
        Obstacle(reason, tuple(int(n) for n in sorted(runs.loc[mask, "ranks"].unique())))
        for reason, mask in reasons.items()
        if mask.any()
    )
    served = runs["backend"].isin(recorded_config.ASYNCHRONOUS | recorded_config.TOWERS).any()
    return (*obstacles, _BY_SERVER) if served else obstacles


def _compute_s(without_allreduce: pd.DataFrame, first: dict[Hashable, Any]) -> float:
    """Return the step of the largest control that has the setting and the batch of a curve; NaN without one."""
    same = without_allreduce
    for name in _SAME if len(same) else ():
        same = same[same[name].eq(first[name]) | (same[name].isna() & bool(pd.isna(first[name])))]
    if same.empty:
        return math.nan
    largest = same[same["ranks"].eq(same["ranks"].max())]
    rate = metrics.per_rank(speedups.rate_of(largest).value, int(largest["ranks"].iloc[0]))
    return float(metrics.step_s(float(first["batch_per_rank"]), rate))
