"""The arms of an experiment compared with their base or control, in each round or repeat that has both."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from analysis import labels, metrics, speedups
from analysis.documents import counted
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.stats.repeats import Launches
from analysis.table import controls
from analysis.table.identity import SCALING
from train.record import recorded_config


@dataclass(frozen=True, eq=False)
class Ratio:
    """Throughputs of one arm over those of another: a ratio for each round, or repeat."""

    model: str
    series: str  # of the arm that is over the other
    ranks: int
    label: list[str]  # the lines of a label that says which arms are compared
    launches: Launches
    unit: str  # a round, or a repeat


def ratios(local: pd.DataFrame) -> Iterator[Ratio]:
    """Yield, for each number of ranks, the throughput of each arm over that of the base."""
    runs = speedups.rates(local)
    for (model, _), rows in runs.groupby(["model", "arms"], sort=False):
        for ranks, at in rows.groupby("ranks"):
            arms = sorted((series for _, series in at.groupby("series")), key=_work)
            bases = [arm for arm in arms if arm["role"].eq("base").any()]
            for base, arm in ((base, arm) for base in bases for arm in arms if arm is not base):
                if launches := speedups.paired_ratios(arm, base):
                    pair = _pair_label(arm.iloc[0], base.iloc[0])
                    title = f"{labels.name(model)}, {counted(int(str(ranks)), 'rank')}: {pair}"
                    details = [*labels.distinctions(rows, runs, "arm"), *_server_labels(arm, base)]
                    unit = "repeat" if arm["round"].isna().all() else "round"
                    label = [title, ", ".join(details)]
                    yield Ratio(str(model), str(arm["series"].iloc[0]), int(str(ranks)), label, launches, unit)


def compared(local: pd.DataFrame) -> bool:
    """Return whether an experiment has several arms on one number of ranks, and sweeps ranks or nothing."""
    measured = local[local["kind"].eq("measured")]
    on_ranks = measured["axis"].isin(("", *SCALING)).all()
    return bool(on_ranks and measured.groupby(["arms", "ranks"])["series"].nunique().max() > 1)


def _work(series: pd.DataFrame) -> tuple[bool, bool, str]:
    """Return a key that orders arms from the one that does least: without Horovod, without allreduce."""
    first = series.iloc[0]
    return first["backend"] != "none", bool(first["allreduce"]), str(first["arm"])


def _pair_label(arm: Any, base: Any) -> str:
    if base["backend"] == "none" and arm["backend"] == "horovod":
        return "with Horovod / without"
    if base["allreduce"] != arm["allreduce"]:
        return "with allreduce / without"
    return f"{_name(arm)} / {_name(base)}"


def _server_labels(*arms: pd.DataFrame) -> Iterator[str]:
    """Yield a phrase for each arm with cores for parameter servers beside the ranks: "ps: +2 cores for servers"."""
    for arm in arms:
        yield from (f"{arm['arm'].iloc[0]}: {phrase}" for phrase in labels.server_cores(arm))


def _name(series: Any) -> str:
    """Return the name of an arm, marked where it is asynchronous."""
    return (
        f"{series['arm']} (asynchronous)" if series["backend"] in recorded_config.ASYNCHRONOUS else str(series["arm"])
    )


_LINK_COLUMNS = ["model", "series", "nodes", "parameters", "link", "position", "n", "step_s", "control_s", "min_s"]
_LINK_COLUMNS += ["invalid", *(name + end for name in ("share", "exposed_s") for end in ("", "_low", "_high"))]
# The columns that a series shares with its control beside the model.
_SAME = ["model", "nodes", "batch_per_rank", "machine"]


def link_rates(local: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each model and link rate of local records that swept the rate of the links.

    Columns: model, series, nodes, parameters, link (a label of its rate), position (0 for the slowest), n, step_s and
    control_s (time of a step with allreduce, and of the control) [s], min_s (`metrics.ring_allreduce_min_s`), share
    (throughput over that of the control) and exposed_s (the step less that of the control) [s], medians over pairs of a
    round or a repeat, with the ends of their 95 % intervals (`_low`, `_high`); invalid: the nodes disturbed each other.
    Models without a control are left out.
    """
    runs = speedups.rates(local)
    runs = runs.assign(step_s=metrics.step_s(runs["global_batch"].astype(float), runs["rate"]))
    measured, alone = (runs[runs["kind"].eq(kind)] for kind in ("measured", "control"))
    links = labels.ordered_values(measured["link_mbit_per_s"])
    points = []
    for _, rows in measured.groupby(["model", "series"], sort=False):
        control = alone[(alone[_SAME] == rows[_SAME].iloc[0]).all(axis=1)]
        for position, link in enumerate(links if len(control) else []):
            at = rows[rows["link_mbit_per_s"].isna() if math.isnan(link) else rows["link_mbit_per_s"].eq(link)]
            if len(at):
                points.append(_link_point(at, control, link) | {"position": position})
    return pd.DataFrame(points, columns=_LINK_COLUMNS)


def _link_point(at: pd.DataFrame, control: pd.DataFrame, link: float) -> dict[str, Any]:
    """Return the numbers of one model at one link rate, against its control in the same round or repeat."""
    nodes, parameters = int(at["nodes"].iloc[0]), int(at["parameters"].iloc[0])
    step, control_step = (repeats.arithmetic_mean([runs["step_s"].tolist()]) for runs in (at, control))
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
        "invalid": bool(controls.invalid(at).any()),
        **_interval("share", share),
        **_interval("exposed_s", exposed),
    }


def _interval(name: str, number: Number) -> dict[str, float]:
    return {name: number.value, f"{name}_low": number.low, f"{name}_high": number.high}
