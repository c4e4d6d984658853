"""The numbers of one experiment, point by point: as a text table and as JSON."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Annotated, Literal

import pandas as pd
from msgspec import UNSET, UnsetType

from analysis import labels, speedups
from analysis.documents import Document, NumberField, about
from analysis.experiments import BOUNDS, ENERGY_LABELS, allreduce_points, arms, final_values, point_bounds, point_energy
from analysis.stats import Number, repeats, significant, unknown
from analysis.table import controls
from analysis.table.hardware import GPUS, PER_EPOCH, PROCESSORS
from analysis.table.swept_axis import LINK, SCALING
from common.terminal import counted
from record import recorded_config

# The columns that identify points, and their headers.
_POINT = {
    "nodes": "nodes",
    "ranks": "ranks",
    "threads_per_rank": "threads\na rank",
    "batch_per_rank": "batch\na rank",
    "link_mbit_per_s": "link\nMbit/s",
}
# Axes that one of these columns shows.
_AXES_WITH_COLUMN = (*SCALING, "threads_per_rank", "batch_per_rank", "global_batch", LINK)
_FINAL = {
    "validation_accuracy": "validation\naccuracy",
    "validation_mean_absolute_error": "mean absolute\nerror [classes]",
}
_ENERGY = {PROCESSORS: "joules\nan image", GPUS: "joules of GPUs\nan image"}
_ENERGY |= {PER_EPOCH[name]: header.replace("image", "epoch") for name, header in _ENERGY.items()}
_OVER_BASE = "ratio_to_base"
# The columns that a speedup by time needs: a table of a few columns is searched in a third of the time.
_TIME_COLUMNS = ["record", "series", "ranks", "seed", "repeat", "round", "quantity", "value"]
_OF_RUN = ("experiment", "model", "nodes", "ranks", "ranks_per_node", "threads_per_rank", "batch_per_rank",
            "global_batch", "arm", "axis", "axis_value")  # fmt: skip


Optional = NumberField | UnsetType


class SummaryPoint(Document):
    """A point of an experiment that trains; it has those numbers that are known."""

    experiment: str
    model: str
    nodes: int | None
    ranks: int | None
    ranks_per_node: int | None
    threads_per_rank: int | None
    batch_per_rank: int | None
    global_batch: int | None
    arm: Annotated[str, about("its name, as `without-allreduce` of the control; empty: the experiment has one arm")]
    axis: Annotated[str, about("the swept parameter")]
    axis_value: Annotated[float | str | None, about("its value here")]
    series: Annotated[str, about("what distinguishes it from other series of its model")]
    design: Literal["rounds", "launches"]
    rounds: Annotated[int, about("how many; 0 for launches")]
    launches: int
    note: Annotated[str, about("for the reader")]
    images_per_s: Annotated[NumberField, about("of the whole job, in `unit`")]
    unit: Annotated[str, about("of the rates: images/s, or another, as tokens/s; 1/s: not known")]
    compute_limit_images_per_s: Annotated[Optional, about("bound by the processors, as the same jobs measured")] = UNSET
    compute_limit_fraction: Annotated[Optional, about("share of it that was reached")] = UNSET
    link_limit_images_per_s: Annotated[Optional, about("bound by the links, as the same jobs measured")] = UNSET
    link_limit_fraction: Annotated[Optional, about("share of it that was reached")] = UNSET
    joules_per_image: Annotated[Optional, about("energy of the processors of all hosts [J]")] = UNSET
    gpu_joules_per_image: Annotated[Optional, about("energy of the GPUs of all ranks [J]")] = UNSET
    joules_per_epoch: Annotated[Optional, about("as joules_per_image, of the steps of an epoch [J]")] = UNSET
    gpu_joules_per_epoch: Annotated[Optional, about("as gpu_joules_per_image, of the steps of an epoch [J]")] = UNSET
    speedup_throughput: Annotated[Optional, about("over the fewest ranks, by throughput")] = UNSET
    efficiency_throughput: Annotated[Optional, about("over the fewest ranks, by throughput")] = UNSET
    speedup_wall_time: Annotated[Optional, about("over the fewest ranks, by wall time")] = UNSET
    efficiency_wall_time: Annotated[Optional, about("over the fewest ranks, by wall time")] = UNSET
    speedup_job_time: Annotated[Optional, about("over the fewest ranks, by job time")] = UNSET
    efficiency_job_time: Annotated[Optional, about("over the fewest ranks, by job time")] = UNSET
    ratio_to_base: Annotated[Optional, about("images/s over those of the base on as many ranks")] = UNSET
    validation_accuracy: Annotated[Optional, about("after the last epoch, a fraction")] = UNSET
    validation_mean_absolute_error: Annotated[Optional, about("after the last epoch [classes]")] = UNSET


@dataclass(frozen=True)
class SummarizedPoint:
    """One point of an experiment: its runs or rounds, as from `speedups.rates`, and its numbers by name."""

    runs: pd.DataFrame
    series: str  # a label that distinguishes it from the other series of its model
    numbers: dict[str, Number]

    @cached_property
    def first(self) -> pd.Series:
        """The first run, for what all share."""
        return self.runs.iloc[0]

    @property
    def rounds(self) -> int:
        """The number of rounds; 0 where each launch was of this point alone."""
        return int(self.runs["round"].notna().sum())

    @property
    def launches(self) -> int:
        """The number of launches."""
        return int(self.runs["record"].nunique())


def points(local: pd.DataFrame) -> list[SummarizedPoint]:
    """Return the points of one experiment, by model and series."""
    times = local[_TIME_COLUMNS]
    rates = {by: speedups.rates(local if by == "throughput" else times, by) for by in speedups.BY}
    among, result = _without_own_controls(rates["throughput"]), []
    hardware = local[local["quantity"].isin((*BOUNDS, *ENERGY_LABELS))]
    finals = {quantity: final_values(local, quantity) for quantity in _FINAL if quantity in local["quantity"].array}
    ratios = arms.ratios(local) if arms.compared(local) else ()
    over_base = {(ratio.series, ratio.ranks): ratio.number for ratio in ratios}
    for (_, name), series in among.groupby(["model", "series"], sort=False):
        curves = _curves({by: runs[runs["series"] == name] for by, runs in rates.items()}, among)
        excluded = ("arm",) if series["kind"].eq("control").all() else ()
        label = " ".join(labels.distinctions(series, among, *excluded))
        for _, at in series.groupby([*_POINT, "axis_value"], dropna=False):
            numbers = {"images_per_s": speedups.rate_of(at)}
            numbers |= dict(_speedups(at, curves)) | dict(_final_numbers(at, finals))
            size = (name, int(at["ranks"].iloc[0]))
            numbers |= {_OVER_BASE: over_base[size]} if size in over_base else {}
            point_rows = speedups.rows_of_point(hardware, at)
            numbers |= dict(_bounds(at, point_rows, numbers["images_per_s"])) | point_energy(point_rows)
            result.append(SummarizedPoint(at, label, numbers))
    return result


def _without_own_controls(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the runs without controls of themselves: a rank alone exchanges nothing, in the same rounds."""
    same = ["record", "round", "ranks", "batch_per_rank"]
    control = runs["kind"].eq("control") & runs["round"].notna()
    if not control.any():
        return runs
    itself = pd.MultiIndex.from_frame(runs[same]).isin(pd.MultiIndex.from_frame(runs.loc[~control, same]))
    return runs[~(control & runs["ranks"].eq(1) & itself)]


def _curves(rates: dict[str, pd.DataFrame], among: pd.DataFrame) -> dict[str, list[speedups.ScalingPoint]]:
    """Return speedup and efficiency of one series over its ranks, by each rate; none if ranks do not vary."""
    runs = rates["throughput"]
    base = speedups.base_of(runs, among)
    if runs["axis"].iloc[0] not in SCALING or (base is None and runs["ranks"].nunique() == 1):
        return {}
    if base is not None:  # the controls on its ranks have other batches
        rates = {"throughput": runs[runs["ranks"] > base["ranks"].min()]}
    curves = {by: speedups.curve(rows, "ranks", base) for by, rows in rates.items()}
    return {by: curve for by, curve in curves.items() if by == "throughput" or len(curve) > 1}


def _speedups(at: pd.DataFrame, curves: dict[str, list[speedups.ScalingPoint]]) -> Iterator[tuple[str, Number]]:
    """Yield speedup and efficiency of a point, by each rate that has them."""
    size = float(at["ranks"].iloc[0])
    for by, curve in curves.items():
        for point in (point for point in curve if point.size == size):
            for name, number in (("speedup", point.speedup), ("efficiency", point.efficiency)):
                yield f"{name}_{by.replace(' ', '_')}", replace(number, n=point.n)


def _bounds(at: pd.DataFrame, rows: pd.DataFrame, rate: Number) -> Iterator[tuple[str, Number]]:
    """Yield the bounds of a point, and the share of each that its throughput reaches; a bound counts as exact."""
    for quantity, bound in point_bounds(rows).items():
        yield quantity, unknown(bound, int(at["record"].nunique()))
        yield quantity.replace("_images_per_s", "_fraction"), rate.over(bound)


def _final_numbers(at: pd.DataFrame, finals: Mapping[str, pd.Series]) -> Iterator[tuple[str, Number]]:
    """Yield the quantities after the last epoch, for a point that was trained over epochs; finals: by record."""
    for quantity, values in finals.items():
        final = at["record"].map(values).dropna()
        if len(final):
            yield quantity, repeats.arithmetic_mean(repeats.singles(final.tolist()))


def answer(local: pd.DataFrame) -> list[SummaryPoint] | list[allreduce_points.AllreducePoint]:
    """Return the points of one experiment."""
    if local["quantity"].eq("allreduce_s").any():
        return allreduce_points.answer(local)
    return [
        SummaryPoint(
            **{name: point.first[name] for name in _OF_RUN},
            **{name: getattr(point, name) for name in ("series", "rounds", "launches")},
            design="rounds" if point.rounds else "launches",
            note=_remarks(point),
            unit=labels.rate_unit(point.runs),
            **point.numbers,  # type: ignore[arg-type]
        )
        for point in points(local)
    ]


def _ratio(number: Number | None) -> str:
    if number is None:
        return ""
    return number.text(".3f" if number.high - number.low < 0.02 else ".2f")


def _number(value: float, unknown: str) -> str:
    return unknown if pd.isna(value) else f"{value:g}"


def _remarks(point: SummarizedPoint) -> str:
    runs = point.runs
    remarks = ["without Horovod"] if (runs["backend"] == "none").any() else []
    remarks += ["without allreduce"] if not remarks and not runs["allreduce"].all() else []
    remarks += ["not synchronous SGD"] if runs["backend"].isin(recorded_config.ASYNCHRONOUS).any() else []
    remarks += labels.server_cores(runs)
    remarks += ["shared cores: not valid as a scaling result"] if runs["cores_shared"].any() else []
    reasons = dict.fromkeys(number.no_interval for number in point.numbers.values())
    return "; ".join([*remarks, *(f"no interval: {why}" for why in reasons if why)])


def rows(local: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each point of one experiment, in the order of the models, for a text table.

    Brackets hold the 95 % interval where it is known; columns without a value are left out. A sweep over allreduces has
    the columns of `allreduce_points.rows`.
    """
    if local["quantity"].eq("allreduce_s").any():
        return allreduce_points.rows(local)
    table = pd.DataFrame([_row(point, local) for point in points(local)]).astype(object).fillna("")
    columns = [column for column in table if not table[column].isin([""]).all()]
    return table[sorted(columns, key=lambda column: column == "note")]


def _row(point: SummarizedPoint, local: pd.DataFrame) -> dict[str, object]:
    """Return the row of a point of an experiment."""
    first, numbers = point.first, point.numbers
    row: dict[str, object] = {"model": labels.name(first["model"]), "series": point.series}
    row |= {header: first[column] for column, header in _POINT.items()}
    if first["kind"] == "control":
        row["nodes"] = f"{first['nodes']}, control"
    limited = local["link_mbit_per_s"].notna().any()
    row[_POINT["link_mbit_per_s"]] = _number(first["link_mbit_per_s"], "no limit") if limited else ""
    for axis in local["axis"].unique():
        if axis and axis not in _AXES_WITH_COLUMN:
            row[axis.replace(".", ".\n")] = _number(first["axis_value"], "none") if first["axis"] == axis else ""
    row |= {"rounds": point.rounds or "", "launches": point.launches}
    row[labels.rate_unit(point.runs)] = numbers["images_per_s"].text()
    row |= {f"of the\n{name} limit": _ratio(numbers.get(f"{name}_limit_fraction")) for name in ("compute", "link")}
    row |= {header: numbers[name].text() if name in numbers else "" for name, header in _ENERGY.items()}
    row |= {f"{name}\nby throughput": _ratio(numbers.get(f"{name}_throughput")) for name in ("speedup", "efficiency")}
    compared = numbers.get("speedup_throughput", numbers.get(_OVER_BASE))
    row["variation\nbetween"] = compared.variation.removeprefix("between ") if compared else ""
    for by in ("wall", "job"):
        both = [_ratio(numbers.get(f"{name}_{by}_time")) for name in ("speedup", "efficiency")]
        row[f"speedup, efficiency\nby {by} time"] = ", ".join(filter(None, both))
    row["over the\nbase"] = numbers[_OVER_BASE].text(".3f") if _OVER_BASE in numbers else ""
    row |= {header: numbers[name].text() if name in numbers else "" for name, header in _FINAL.items()}
    return row | {"note": _remarks(point)}


def sentences(local: pd.DataFrame) -> list[str]:
    """Return what one experiment shows: a sentence for each pair of arms, or else for the largest point of each series.

    Such a point has a speedup over the smallest, or the accuracy after the last epoch. Empty if there is neither.
    """
    if not local["quantity"].eq("images_per_s").any():
        return []
    if arms.compared(local):
        return [f"{ratio.label[0]}: {ratio.number.text('.2f')} of the throughput." for ratio in arms.ratios(local)]
    measured = [point for point in points(local) if point.first["kind"] == "measured"]
    largest = {(point.first["model"], point.first["series"]): point for point in measured}
    return [sentence for point in largest.values() if (sentence := _sentence(point))]


def _sentence(point: SummarizedPoint) -> str:
    """Return what a point shows, in a sentence; "" if it has neither an accuracy nor a speedup over a smaller one."""
    first = point.first
    title = ", ".join(filter(None, (labels.name(first["model"]), point.series)))
    size = counted(int(first["nodes"]), "node") if first["axis"] == "nodes" else counted(int(first["ranks"]), "rank")
    speedup, why = point.numbers.get("speedup_throughput"), controls.why_invalid(point.runs).iloc[0]
    for quantity, header in _FINAL.items():
        if quantity in point.numbers:
            return f"{title} on {size} ends with a {header.replace(chr(10), ' ')} of {point.numbers[quantity].text()}."
    if speedup is None or speedup.value == 1:
        return ""
    efficiency = point.numbers["efficiency_throughput"].value
    valid = f"; not valid as a scaling result ({why})" if why else ""
    times = f"{speedup.text('.2f')} times as fast as on the smallest point"
    return f"{title} on {size} is {times}, {100 * efficiency:.0f} % of the ideal{valid}."


def speedup_rows(local: pd.DataFrame) -> pd.DataFrame:
    """Return the speedups of the curves in rounds over the nodes of an experiment, for a narrow table.

    One row for each model and number of nodes, with the fewest nodes beside these. Columns without a value are left
    out.
    """
    rows = []
    in_rounds = [p for p in points(local) if p.rounds and p.first["axis"] == "nodes"]
    with_speedup = [p for p in in_rounds if "speedup_throughput" in p.numbers]
    for point in (p for p in with_speedup if p.first["kind"] == "measured"):
        same = [p for p in in_rounds if p.first["series"] == point.first["series"]]
        smallest = min(same, key=lambda p: p.first["nodes"])
        if point.first["nodes"] == smallest.first["nodes"]:
            continue
        speedup, ends = point.numbers["speedup_throughput"], (smallest, point)
        control = [p for p in with_speedup if p.first["kind"] != "measured" and _is_beside(p, point)]
        rows.append(
            {
                "model": labels.name(point.first["model"]),
                "nodes": " to ".join(str(end.first["nodes"]) for end in ends),
                "images/s": " to ".join(significant(end.numbers["images_per_s"].value, ".3g") for end in ends),
                "speedup": speedup.text(".2f"),
                "efficiency": f"{point.numbers['efficiency_throughput'].value:.2f}",
                "without\nallreduce": f"{control[0].numbers['speedup_throughput'].value:.2f}" if control else "",
                "note": speedup.no_interval and f"no interval: {speedup.no_interval}",
            }
        )
    return pd.DataFrame(rows).replace("", None).dropna(axis=1, how="all").fillna("")


def _is_beside(control: SummarizedPoint, point: SummarizedPoint) -> bool:
    """Return whether a point without allreduce is the control of another one: of the same launches, nodes and batch."""
    same = ["record", "nodes", "batch_per_rank"]
    control_keys, keys = (p.runs[same].drop_duplicates().to_numpy().tolist() for p in (control, point))
    return bool(control_keys == keys)
