"""Curves from a user's table, from the published numbers, and from local records."""

import math
from collections.abc import Hashable
from dataclasses import replace
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd

from analysis import PUBLISHED, TableError, labels, metrics, speedups
from analysis.curves import PER_RANK, RATES, SOURCE_RUN, curve_numbers, lookup
from analysis.predict import SHARED_CORES, Curve, Obstacle
from analysis.table import controls
from analysis.table.hardware import COMPUTE, LINK
from analysis.user_table.rates import rates
from analysis.user_table.table_contract import UserTable
from analysis.user_table.tidy import settings
from record import recorded_config

_ERRORS_BETWEEN_ENDS = 1.96 * 2  # standard errors between the ends of a 95 % interval
_SERVER = "parameter_server"
_UPDATE = r"variable update: ([^;]+)"
# The columns of the points of a user's or of published curves. detail: of the setting; run: the name without a model.
_POINT_COLUMNS = [
    *("model", "gpu", "machine", "dataset", "detail", "run", "source", "unit"),
    *("ranks", "batch_per_rank", "ranks_per_node", "images_per_s", "spread"),
]
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
    curves = published(table.published) if table.published is not None else _curves(_user_points(table))
    if not curves:
        raise TableError(f"{table.path}: no curve is measured on two numbers of ranks; allowed: two or more")
    return [replace(curve, may_saturate=exchange is None, obstacles=(*curve.obstacles, *obstacles)) for curve in curves]


def _user_points(table: UserTable) -> pd.DataFrame:
    """Return the runs of a user's table as points for `_curves`. Raises TableError for ends that do not hold a rate."""
    runs, numbers = table.runs, ["ranks", "batch_per_rank", "ranks_per_node", "low", "high"]
    points = runs.reindex(columns=["place", *numbers]).astype(dict.fromkeys(numbers, float))
    points = points.assign(**{name: runs.get(name, "") for name in ("model", "gpu", "machine", "dataset")})
    points = points.assign(detail=settings(runs), source=table.path, run="").join(rates(runs))
    points = points[points["rate"].gt(0)]
    outside = points[points["low"].gt(points["rate"]) | points["high"].lt(points["rate"])]
    if len(outside):
        row = outside.iloc[0]
        raise TableError(
            f"{row['place']}: low, high: {row['low']:g}, {row['high']:g} given; allowed: ends of an "
            f"interval that holds the rate ({row['rate']:g})"
        )
    spread = (points["high"] - points["low"]) / _ERRORS_BETWEEN_ENDS / points["rate"]
    return points.assign(images_per_s=points["rate"], spread=spread, unit=points["work"].replace("", "1") + "/s")


def published(table: pd.DataFrame) -> list[Curve]:
    """Return the curves of throughput in the published tidy table; if a report copied a page, those of the page.

    Runs that differ in how variables are updated are different curves; a speed printed as 0 is no measurement.
    """
    rows = table[table["kind"].eq("measured") & table["quantity"].isin([*RATES, *PER_RANK]) & table["value"].gt(0)]
    copied = rows["report"].isin(rows.loc[rows["run"].eq(SOURCE_RUN), "report"]) & rows["run"].ne(SOURCE_RUN)
    rows = rows[~copied & rows["ranks"].notna()].astype(
        dict.fromkeys(("ranks", "batch_per_rank", "ranks_per_node"), float)
    )
    rate = rows["value"].where(~rows["quantity"].isin(PER_RANK), metrics.job_total(rows["value"], rows["ranks"]))
    rows = rows.assign(images_per_s=rate, spread=math.nan, unit="images/s", source=rows["machine"])
    rows = rows.assign(detail=rows["note"].str.extract(_UPDATE, expand=False).fillna(""))
    return _curves(rows, "report", "device", "threads_per_rank", "experiment", "quantity")


def _curves(points: pd.DataFrame, *also: str) -> list[Curve]:
    """Return the curves of points that have two numbers of ranks or more; repeats are averaged.

    Curves differ in model, gpu, machine, dataset, `detail` or `also`, and in their batch per rank unless they keep the
    global one. Columns: _POINT_COLUMNS; spread is NaN where it is not known.
    """
    points = points.assign(global_batch=points["batch_per_rank"] * points["ranks"])
    numbers = curve_numbers(points, ["model", "gpu", "machine", "dataset", "detail", *also])
    averaged = _averaged(points[_POINT_COLUMNS].assign(curve=numbers))
    return [_named(rows) for _, rows in averaged.groupby("curve") if rows["ranks"].nunique() > 1]


def _averaged(points: pd.DataFrame) -> pd.DataFrame:
    """Return one point of each curve and size; only a size without repeats has a spread."""
    key = ["curve", "ranks", "batch_per_rank"]
    size, per_node = points.groupby(key, dropna=False), points.groupby("curve")["ranks_per_node"].transform("max")
    spread = points["spread"].where(size["ranks"].transform("size").eq(1))
    rates = size["images_per_s"].transform("mean")
    return points.assign(images_per_s=rates, spread=spread, ranks_per_node=per_node).drop_duplicates(key)


def _named(points: pd.DataFrame) -> Curve:
    """Return the curve of these points, named by what they share."""
    first, batch = points.iloc[0], points["batch_per_rank"].dropna().unique()
    label = f"batch {batch[0]:g}" if len(batch) == 1 else ""
    return _curve(
        points,
        model=str(first["model"] or first["run"]),
        name=", ".join(filter(None, (first["gpu"], first["machine"], first["dataset"], label, first["detail"]))),
        source=first["source"],
        ranks_per_node=float(first["ranks_per_node"]),
        obstacles=(_BY_SERVER,) if first["detail"].startswith(_SERVER) else (),
        unit=first["unit"],
    )


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


def azure() -> list[Curve]:
    """Return the curves of tf_cnn_benchmarks on Azure, which no report has: they are for calibration.

    Their source is the network of a machine, without its GPU: the curves over one network are not independent.
    """
    rows = (
        pd.read_csv(PUBLISHED / "atlas" / "azure.csv").rename(columns={"value": "images_per_s"}).assign(spread=math.nan)
    )
    return [
        _curve(points, model=model, name=run, source=f"Azure {points.iloc[0]['machine']}", ranks_per_node=4.0)
        for (run, model), points in rows.groupby(["run", "model"], sort=False)
    ]


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
    rates = {point.size: point.rate for point in speedups.curve(runs, "ranks")}
    points = pd.DataFrame({"ranks": [*rates], "images_per_s": [rate.value for rate in rates.values()]})
    program = first["backend"] == recorded_config.PROGRAM
    # A program without a batch per rank divides its global batch among the ranks.
    shares = runs["batch_per_rank"].astype(float).fillna(runs["global_batch"].astype(float) / runs["ranks"])
    batch = shares.groupby(runs["ranks"].astype(float)).first()
    points["batch_per_rank"] = points["ranks"].map(batch)
    points["spread"] = [(rate.high - rate.low) / _ERRORS_BETWEEN_ENDS / rate.value for rate in rates.values()]
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
        **_bounds(hardware, first),
        series=str(first["series"]),
        measure=str(first["measure"]),
        max_nodes=_number(first["max_nodes"], math.inf),
        unit=labels.rate_unit(runs),
    )


def _number(value: Any, absent: float) -> float:
    return absent if pd.isna(value) else float(value)


def _bounds(hardware: pd.DataFrame, first: dict[Hashable, Any]) -> dict[str, float]:
    """Return the bounds of a rank and of an exchange: the least strict of all sizes.

    A product of matrices and a stream are measured once a launch, when something may have disturbed them.
    """
    ranks, batch, value = (hardware[name].astype(float) for name in ("ranks", "global_batch", "value"))
    image_s = metrics.rate(1.0, metrics.per_rank(value, ranks))[hardware["quantity"].eq(COMPUTE)].min()
    ring_s = (metrics.step_s(batch, value) / metrics.hops(ranks))[hardware["quantity"].eq(LINK)].min()
    parameters, mbit_per_s = int(_number(first["parameters"], 0)), _number(first["link_mbit_per_s"], math.nan)
    link_s = metrics.ring_allreduce_min_s(parameters, 2, mbit_per_s)  # between two nodes 2 (n - 1) / n is 1
    return {"image_s": _number(image_s, 0.0), "ring_s": _number(ring_s, 0.0), "link_s": link_s}


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
    """Return the step of the largest control that has the setting and the batch of a curve; 0 without one."""
    same = pd.DataFrame(lookup(without_allreduce, _SAME)(first))
    if same.empty:
        return 0.0
    largest = same[same["ranks"].eq(same["ranks"].max())]
    rate = metrics.per_rank(speedups.rate_of(largest).value, int(largest["ranks"].iloc[0]))
    return float(metrics.step_s(float(first["batch_per_rank"]), rate))
