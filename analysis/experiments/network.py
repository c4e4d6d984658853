"""What links of limited rates cost: throughput and step times over the rate of the links, against the control."""

import math
from typing import Any

import pandas as pd

from analysis import labels, metrics, speedups
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.table import controls

_COLUMNS = ["model", "series", "nodes", "parameters", "link", "place", "n", "step_s", "control_s", "min_s", "lost"]
_COLUMNS += [name + end for name in ("share", "exposed_s") for end in ("", "_low", "_high")]
# What a series and its control share beside the model.
_SAME = ["model", "nodes", "batch_per_rank", "machine"]


def sweep(local: pd.DataFrame) -> pd.DataFrame:
    """One row a model and link rate of local records that swept the rate of the links.

    Columns: model, series, nodes, parameters, link (its rate in words), place (0 for the slowest), n, step_s and
    control_s (time of a step with allreduce, and of the control) [s], min_s (`metrics.ring_allreduce_min_s`), share
    (throughput over that of the control) and exposed_s (the step less that of the control) [s], medians over pairs of a
    round or a repeat, with the ends of their 95 % intervals (`_low`, `_high`); lost: the nodes disturbed each other.
    Models without a control are left out.
    """
    runs = speedups.rates(local)
    runs = runs.assign(step_s=metrics.step_s(runs["global_batch"].astype(float), runs["rate"]))
    measured, alone = (runs[runs["kind"].eq(kind)] for kind in ("measured", "control"))
    links = labels.ordered_values(measured["link_mbit_per_s"])
    found = []
    for _, rows in measured.groupby(["model", "series"], sort=False):
        control = alone[(alone[_SAME] == rows[_SAME].iloc[0]).all(axis=1)]
        for place, link in enumerate(links if len(control) else []):
            at = rows[rows["link_mbit_per_s"].isna() if math.isnan(link) else rows["link_mbit_per_s"].eq(link)]
            if len(at):
                found.append(_point(at, control, link) | {"place": place})
    return pd.DataFrame(found, columns=_COLUMNS)


def _point(at: pd.DataFrame, control: pd.DataFrame, link: float) -> dict[str, Any]:
    """The rounds, or repeats, of one model at one link rate against their control in the same round or repeat."""
    nodes, parameters = int(at["nodes"].iloc[0]), int(at["parameters"].iloc[0])
    step, control_step = (repeats.arithmetic_mean([of["step_s"].tolist()]) for of in (at, control))
    share = repeats.median(speedups.paired_ratios(at, control))
    exposed = repeats.median(speedups.paired_differences(at, control, "step_s"))
    return {
        "model": at["model"].iloc[0],
        "series": at["series"].iloc[0],
        "nodes": nodes,
        "parameters": parameters,
        "link": "no limit" if math.isnan(link) else f"{link:g}",
        "n": step.n,
        "step_s": step.value,
        "control_s": control_step.value,
        "min_s": metrics.ring_allreduce_min_s(parameters, nodes, link),
        "lost": bool(controls.lost(at).any()),
        **_interval("share", share),
        **_interval("exposed_s", exposed),
    }


def _interval(name: str, e: Number) -> dict[str, float]:
    return {name: e.value, f"{name}_low": e.low, f"{name}_high": e.high}
