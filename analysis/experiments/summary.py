"""What one experiment measured, as a table: one row a point."""

import pandas as pd

from analysis import metrics, plots
from analysis.experiments import allreduce
from analysis.metrics import Estimate
from analysis.table.identity import LINK, SCALING

# The columns that tell points apart, and their headers.
_POINT = {
    "nodes": "nodes",
    "ranks": "ranks",
    "threads_per_rank": "threads\na rank",
    "batch_per_rank": "batch\na rank",
    "link_mbit_per_s": "link\nMbit/s",
}
# Axes that one of these columns shows.
_SHOWN = (*SCALING, "threads_per_rank", "batch_per_rank", "global_batch", LINK)
_AT_THE_END = {
    "validation_accuracy": "validation\naccuracy",
    "validation_mean_absolute_error": "mean absolute\nerror [classes]",
}


def _words(e: Estimate) -> str:
    return f"{e.value:.4g}" + ("" if e.n == 1 else f" ± {e.half_width:.2g}")


def _number(value: float, unknown: str) -> str:
    return unknown if pd.isna(value) else f"{value:g}"


def _remarks(runs: pd.DataFrame) -> str:
    said = ["without Horovod"] if (runs["backend"] == "none").any() else []
    said += ["without allreduce"] if not said and not runs["allreduce"].all() else []
    said += ["shared cores: no measure of scaling"] if runs["cores_shared"].any() else []
    return "; ".join(said)


def rows(local: pd.DataFrame) -> pd.DataFrame:
    """One row a point of one experiment, in the order of the models.

    Columns: model, what tells its series apart, nodes, ranks, threads and batch per rank, the value of the swept key
    where none of these shows it, n, images/s with its 95 % interval; where nodes or ranks per node vary, speedup
    (efficiency) by throughput, wall time and job time over the fewest ranks; what training over epochs came to; a note.
    A sweep over allreduces has the columns of `allreduce.rows`.
    """
    if local["quantity"].eq("allreduce_s").any():
        return allreduce.rows(local)
    rates = {by: metrics.rates(local, by) for by in metrics.BY}
    found = []
    for _, series in rates["throughput"].groupby(["model", "series"], sort=False):
        of_series = {by: rate[rate["series"] == series["series"].iloc[0]] for by, rate in rates.items()}
        curves = _curves(of_series) if series["axis"].iloc[0] in SCALING and series["ranks"].nunique() > 1 else {}
        for _, at in series.groupby([*_POINT, "axis_value"], dropna=False):
            found.append(_point(at, rates["throughput"]) | _speedups(at, curves) | _at_the_end(at, local))
            found[-1]["note"] = _remarks(at)
    table = pd.DataFrame(found)
    kept = [column for column in table if not table[column].isin([""]).all()]
    return table[sorted(kept, key=lambda column: column == "note")]


def _curves(of_series: dict[str, pd.DataFrame]) -> dict[str, pd.DataFrame]:
    """Speedup and efficiency of one series over its ranks, by each rate."""
    return {
        by: metrics.curve(runs["ranks"].tolist(), runs["rate"].tolist()).set_index("size")
        for by, runs in of_series.items()
    }


def _point(at: pd.DataFrame, among: pd.DataFrame) -> dict[str, object]:
    """What a point is, and its throughput; `among`: the runs of the experiment."""
    row: dict[str, object] = {
        "model": plots.name(at["model"].iloc[0]),
        "series": " ".join(plots.told_apart(at, among)),
    }
    row |= {header: at[column].iloc[0] for column, header in _POINT.items()}
    limited = among["link_mbit_per_s"].notna().any()
    row[_POINT["link_mbit_per_s"]] = _number(at["link_mbit_per_s"].iloc[0], "no limit") if limited else ""
    for axis in among["axis"].unique():
        if axis and axis not in _SHOWN:
            value = _number(at["axis_value"].iloc[0], "none") if at["axis"].iloc[0] == axis else ""
            row[axis.replace(".", ".\n")] = value
    return row | {"n": len(at), "images/s": _words(metrics.estimate(at["rate"].tolist()))}


def _speedups(at: pd.DataFrame, curves: dict[str, pd.DataFrame]) -> dict[str, object]:
    found: dict[str, object] = {}
    for by, curve in curves.items():
        point = curve.loc[float(at["ranks"].iloc[0])]
        found[f"speedup (efficiency)\nby {by}"] = f"{point['speedup']:.2f}x ({point['efficiency']:.2f})"
    return found


def _at_the_end(at: pd.DataFrame, local: pd.DataFrame) -> dict[str, object]:
    """The quantities after the last epoch, for the point that was trained over epochs."""
    found: dict[str, object] = {}
    for quantity, header in _AT_THE_END.items():
        final = at["record"].map(metrics.final(local, quantity)).dropna()
        if len(final):
            found[header] = _words(metrics.estimate(final.tolist()))
    return found
