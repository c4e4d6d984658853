"""Labels: names of models, distinctions between series, numbers of repeats, notes below a figure, ticks of an axis."""

import math
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.table import controls
from analysis.table.swept_axis import PHRASES
from common.terminal import counted
from record import intervals, recorded_config
from record.disturbance import Selection, selection_text
from record.progress import duration

_NAMES = {
    "vgg16": "VGG16", "vgg19": "VGG19", "resnet50": "ResNet50", "resnet101v2": "ResNet101 v2", "resnet152": "ResNet152",
    "inceptionv3": "Inception v3", "inceptionv4": "Inception v4", "alexnet": "AlexNet", "googlenet": "GoogLeNet",
}  # fmt: skip


def rate_unit(rows: pd.DataFrame) -> str:
    """Return the unit of the rates of these rows: images/s, or what users' programs count; several with commas."""
    return ", ".join(rows.loc[rows["quantity"].eq("images_per_s"), "unit"].unique()) or "images/s"


def by_rate_unit(local: pd.DataFrame) -> list[pd.DataFrame]:
    """Return the rows of the records of each unit of rates: two units have no axis in common."""
    rates = local[local["quantity"].eq("images_per_s")]
    return [local[local["record"].isin(rows["record"])] for _, rows in rates.groupby("unit", sort=False)]


_PERIODS_S = {"s": 1.0, "min": 60.0, "h": 3600.0, "hour": 3600.0, "day": 86400.0}


def work_and_period(unit: str) -> tuple[str, float]:
    """Return what a rate counts, "" if it is not known, and its period [s; NaN: not known]: "ns/day" is ns, 86400."""
    work, _, period = unit.rpartition("/")
    return "" if work == "1" else work, _PERIODS_S.get(period, math.nan)


def name(model: object) -> str:
    """Return a model's name as papers write it."""
    return _NAMES.get(str(model), str(model))


# Backends, and the phrase that every label of them has.
_ALWAYS_LABELLED = {recorded_config.ASYNCHRONOUS: "asynchronous", recorded_config.TOWERS: "variables on the CPU"}
# How ranks exchange gradients.
STRATEGY = ("backend", "gradients", "cycle_time_ms")
# Columns in which two series of one model can differ.
_DISTINCTIVE = ("swept", "arm", "machine", "dataset", "device", "precision", "measure", "batch_per_rank", *STRATEGY)


def distinctions(series: pd.DataFrame, among: pd.DataFrame, *excluded: str) -> list[str]:
    """Return phrases for a label: values that all rows of one series share, and not all rows `among` which it is.

    excluded: columns that the label names already.
    """
    phrases: dict[str, None] = {}
    models = among.groupby("model")
    by_arm = among["arm"].nunique() > 1 and (models["arm"].nunique() == models["series"].nunique()).all()
    excluded += STRATEGY if by_arm and "arm" not in excluded else ()  # the name of the arm stands for them
    for column in _DISTINCTIVE:
        if column not in excluded and among[column].nunique() > 1 and series[column].nunique() == 1:
            phrase = PHRASES[column].format(series[column].iloc[0])
            phrases |= dict.fromkeys(part for part in phrase.split(", ") if part)
    phrases |= {label: None for names, label in _ALWAYS_LABELLED.items() if series["backend"].isin(names).all()}
    return [*phrases, *server_cores(series)]


def server_cores(runs: pd.DataFrame) -> list[str]:
    """Return a phrase if parameter servers had additional cores in all runs: "+2 cores for servers"."""
    cores = int(runs["server_cores"].min())
    return [f"+{counted(cores, 'core')} for servers"] if cores else []


def _counted_range(counts: Iterable[int], noun: str) -> str:
    """Return how many there are of something: "17 to 24 rounds"."""
    low, high = min(counts := list(counts)), max(counts)
    return ("" if low == high else f"{low} to ") + counted(high, noun)


def n_range(counts: Iterable[int]) -> str:
    """Return how many repeats the points have, for a legend: "n=3", "n=1 to 3"; below 6 there is no interval."""
    low, high = min(counts := list(counts)), max(counts)
    return f"n={high}" if low == high else f"n={low} to {high}"


def figure_note(local: pd.DataFrame, scaling: bool = True, stacked: bool = False) -> str:
    """Return a note below a figure: the machines of the local points, and how to read them; "" without any.

    scaling: the figure shows times or rates, which shared cores distort. They do not change accuracies. stacked: it
    shows bars, without intervals.
    """
    if local.empty:
        return ""
    remarks = [] if stacked else _interval_remarks(local)
    if scaling and controls.invalid(local).any():
        shared = "shared cores, " * bool(local["cores_shared"].any())
        remarks.append(f"{'*' if stacked else 'hollow'}: {shared}not valid as a scaling result")
    if local["backend"].isin(recorded_config.ASYNCHRONOUS).any():
        remarks.append("asynchronous: not synchronous SGD")
    lines = ["local: " + "; ".join(local["machine"].unique()), "; ".join(remarks), controls.control_note(local, name)]
    return "\n".join(filter(None, lines))


def caption_note(local: pd.DataFrame) -> str:
    """Return what a caption says of local points: what intervals hold for, and what is left out or assumed."""
    emulated = controls.emulated(local)
    notes = [interval_meaning(local), rounds_left_out(local)] if local["round"].notna().any() else []
    notes += assumptions(local)
    notes += [f"images: {image_sizes(emulated)}"] if len(emulated) else []
    if local["quantity"].eq("wall_s").any() and len(emulated):
        notes.append("quotas apply from the warm-up on: wall time also counts what ran without them")
    return f"Local: {'; '.join(filter(None, notes))}." if notes else ""


def _interval_remarks(local: pd.DataFrame) -> list[str]:
    """Return what the intervals and dots of a figure are, of how many values, and which points have none."""
    rounds = local[local["round"].notna() & local["kind"].eq("measured") & local["quantity"].eq("images_per_s")]
    if len(rounds):
        records = rounds.groupby(["model", "series", "axis_value", "ranks"], dropna=False)["record"]
        counts = [_counted_range(records.size(), "round"), _counted_range(records.nunique(), "launch")]
        remarks = [f"bars: {interval_meaning(local).partition(';')[0]}", f"dots: {' in '.join(counts)} a point"]
        fewest, noun = records.size().min(), "rounds"
    else:
        points = local.groupby(["series", "axis_value", "ranks", "batch_per_rank", "threads_per_rank"], dropna=False)
        remarks, fewest, noun = ["bars: 95 % interval"], points["record"].nunique().min(), "launches"
    return remarks + [f"none of fewer than {intervals.MIN_VALUES} {noun}"] * bool(fewest < intervals.MIN_VALUES)


def interval_meaning(local: pd.DataFrame) -> str:
    """Return for what the intervals of an experiment hold: other launches, or the rounds of the one that there is."""
    in_rounds = local[local["round"].notna()]
    if len(in_rounds) and in_rounds.groupby("series")["record"].nunique().min() == 1:
        return "95 % interval, for more rounds of the same launch; another launch may differ by more"
    begun = pd.to_datetime(local["started_at"], utc=True, format="ISO8601", errors="coerce")
    span_s = (begun.max() - begun.min()).total_seconds()
    within = f" within {duration(span_s)}" if span_s > 0 else ""
    return f"95 % interval, for launches like these{within}; another hour or day may differ by more"


def rounds_left_out(local: pd.DataFrame) -> str:
    """Return how many rounds do not count because others disturbed them, and by how much; "" if all count."""
    bounds = local[local["quantity"].eq("disturbance_bound_fraction")].groupby("record")["value"].first()
    rows = local[local["round"].notna() & local["quantity"].isin(("images_per_s", "disturbance_fraction"))]
    selections = []
    for record, launch in rows.groupby("record", sort=False):
        counting = launch.loc[launch["quantity"].eq("images_per_s"), "round"].unique().tolist()
        disturbed = launch[launch["quantity"].eq("disturbance_fraction")].drop_duplicates("round")
        fractions = dict(zip(disturbed["round"].tolist(), disturbed["value"].tolist(), strict=True))
        bound = float(bounds.get(record, math.inf))
        selections.append(Selection(tuple(counting), dict.fromkeys(counting) | fractions, bound))
    return selection_text(selections)


def assumptions(local: pd.DataFrame) -> list[str]:
    """Return a line for each experiment with the keys of its configuration that its report does not state."""
    keys = local.loc[local["assumed"].ne(""), ["experiment", "assumed"]].drop_duplicates()
    return [f"{name}, assumed, not stated by the report: {names}" for name, names in keys.itertuples(index=False)]


def image_sizes(local: pd.DataFrame) -> str:
    """Return the size of the images of each model."""
    sizes = local[["model", "image_size"]].dropna().drop_duplicates()
    return ", ".join(f"{name(model)} {size} x {size}" for model, size in sizes.itertuples(index=False))


# Ticks that are closer than this share of the axis would overlap.
_TICKS_APART = 0.08


def ordered_values(values: Iterable[float]) -> list[float]:
    """Return each value of an axis once, ascending; NaN (no limit, say) comes last."""
    numbers = [float(value) for value in values]
    return sorted({value for value in numbers if not math.isnan(value)}) + [math.nan] * any(map(math.isnan, numbers))


def positions(values: Sequence[float]) -> tuple[list[float], str]:
    """Return the positions of ordered values on an axis, and its spacing: "", "logarithmic", "evenly spaced".

    Positions are in proportion where the ticks do not overlap, else by their logarithms, else evenly spaced, as
    also if a value is no number.
    """
    x = np.asarray(values, float)
    finite = bool(np.isfinite(x).all())
    if finite and _are_apart(x):
        return x.tolist(), ""
    if finite and x.min() > 0 and _are_apart(np.log2(x)):
        return np.log2(x).tolist(), "logarithmic"
    return [float(i) for i in range(len(x))], "evenly spaced"


def _are_apart(x: NDArray[np.float64]) -> bool:
    return bool(np.diff(x).min(initial=np.inf) >= _TICKS_APART * np.ptp(x))
