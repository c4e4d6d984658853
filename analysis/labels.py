"""Names and labels in text: models, what tells series apart, repeats, notes below a figure, and places on an axis."""

import math
import textwrap
from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from analysis.table import controls
from analysis.table.identity import PHRASES
from train.record import backends, intervals

_NAMES = {
    "vgg16": "VGG16", "vgg19": "VGG19", "resnet50": "ResNet50", "resnet101v2": "ResNet101 v2", "resnet152": "ResNet152",
    "inceptionv3": "Inception v3", "inceptionv4": "Inception v4", "alexnet": "AlexNet", "googlenet": "GoogLeNet",
}  # fmt: skip


def name(model: object) -> str:
    """A model's name as papers write it."""
    return _NAMES.get(str(model), str(model))


# Backends, and what a label says of them also where nothing else is drawn.
_ALWAYS_SAID = {backends.ASYNCHRONOUS: "asynchronous", backends.TOWERS: "variables on the CPU"}
# How ranks exchange gradients.
STRATEGY = ("backend", "gradients", "cycle_time_ms")
# Columns that can tell two series of one model apart.
_TELL = ("swept", "arm", "machine", "dataset", "device", "precision", "measure", "batch_per_rank", *STRATEGY)


def measured(runs: pd.DataFrame, curve: pd.DataFrame) -> str:
    """How often the points of a curve were measured, for a legend: "24 rounds in 2 launches", "n=3"."""
    if runs["round"].isna().all():
        return repeats(curve["n"])
    words = []
    for column, one in (("n", "round"), ("launches", "launch")):
        low, high = curve[column].min(), curve[column].max()
        several = "es" if one == "launch" else "s"
        words.append((f"{high}" if low == high else f"{low} to {high}") + f" {one}{several if high > 1 else ''}")
    return " in ".join(words)


def told_apart(series: pd.DataFrame, among: pd.DataFrame, *said: str) -> list[str]:
    """What the rows of one series have in common that others `among` them have not: phrases for a label.

    said: the columns that the label names already.
    """
    words: dict[str, None] = {}
    of_models = among.groupby("model")
    named = among["arm"].nunique() > 1 and (of_models["arm"].nunique() == of_models["series"].nunique()).all()
    said += STRATEGY if named and "arm" not in said else ()  # the arm's name says it
    for column in _TELL:
        if column not in said and among[column].nunique() > 1 and series[column].nunique() == 1:
            phrase = PHRASES[column].format(series[column].iloc[0])
            words |= dict.fromkeys(part for part in phrase.split(", ") if part)
    words |= {word: None for of, word in _ALWAYS_SAID.items() if series["backend"].isin(of).all()}
    return [*words, *servers(series)]


def servers(runs: pd.DataFrame) -> list[str]:
    """A phrase where, in all runs, parameter servers had cores beside those of the ranks: "+2 cores for servers"."""
    cores = int(runs["server_cores"].min())
    return [f"+{cores} core{'s' * (cores > 1)} for servers"] if cores else []


def repeats(counts: Iterable[int]) -> str:
    """How many repeats the points have, for a legend: "n=3", "n=1 to 3"; below 6 there is no interval."""
    low, high = min(counts := list(counts)), max(counts)
    return f"n={high}" if low == high else f"n={low} to {high}"


def provenance(local: pd.DataFrame, scaling: bool = True) -> str:
    """A note for below the figure: the machines of the local points, and how to read them; "" without any.

    scaling: the figure shows times or rates, which shared cores distort; they leave accuracies as they are.
    """
    if local.empty:
        return ""
    within = ""
    counts = local.groupby(["series", "axis_value", "ranks", "batch_per_rank", "threads_per_rank"], dropna=False)
    in_rounds = local[local["round"].notna()]
    if len(in_rounds):
        one = in_rounds.groupby("series")["record"].nunique().min() == 1
        within = ", over rounds within one launch, not over other launches" if one else ""
    said = [f"bars: 95 % interval{within}"]
    if counts["record"].nunique().min() < intervals.MIN_VALUES:
        said.append(f"none where n < {intervals.MIN_VALUES}")
    if len(in_rounds):
        said.append("dots: rounds")
    if scaling and local["cores_shared"].any():
        said.append("hollow, hatched: shared cores, no measure of scaling")
    elif scaling and controls.lost(local).any():
        said.append("hollow, hatched: no measure of scaling")
    if local["backend"].isin(backends.ASYNCHRONOUS).any():
        said.append("asynchronous: not synchronous SGD")
    lines = ["local: " + "; ".join(local["machine"].unique()), "; ".join(said), *assumed(local)]
    if emulated := controls.control_note(local, name):
        lines += [emulated, "images: " + images(local[local["cpus_per_node"].notna()])]
        if local["quantity"].eq("wall_s").any():
            lines += ["quotas apply from the warm-up on: wall time also counts what ran without them"]
    return "\n".join("\n".join(textwrap.wrap(line, 78)) for line in lines)


def assumed(local: pd.DataFrame) -> list[str]:
    """A line an experiment: the keys of its configuration that its report does not state; none where it states all."""
    keys = local.loc[local["assumed"].ne(""), ["experiment", "assumed"]].drop_duplicates()
    return [
        f"{experiment}, assumed, not stated by the report: {words}"
        for experiment, words in keys.itertuples(index=False)
    ]


def images(local: pd.DataFrame) -> str:
    """The size of the images of each model, in words."""
    sizes = local[["model", "image_size"]].dropna().drop_duplicates()
    return ", ".join(f"{name(model)} {size} x {size}" for model, size in sizes.itertuples(index=False))


# Ticks that are closer than this share of the axis would overlap.
_TICKS_APART = 0.08


def ordered_values(values: Iterable[float]) -> list[float]:
    """Each value of an axis once, ascending; NaN (no limit, say) comes last."""
    given = [float(value) for value in values]
    return sorted({value for value in given if not math.isnan(value)}) + [math.nan] * any(map(math.isnan, given))


def positions(values: Sequence[float]) -> tuple[list[float], str]:
    """Where ordered values of any setting stand on an axis, and how it is spaced: "", "logarithmic", "evenly spaced".

    In proportion where their ticks do not overlap, else by their logarithms, else one after the other; the last is
    also for values that are no number.
    """
    x = np.asarray(values, float)
    if len(x) < 3 and np.isfinite(x).all():
        return x.tolist(), ""
    if np.isfinite(x).all() and np.diff(x).min() >= _TICKS_APART * np.ptp(x):
        return x.tolist(), ""
    if np.isfinite(x).all() and x.min() > 0 and np.diff(np.log2(x)).min() >= _TICKS_APART * np.ptp(np.log2(x)):
        return np.log2(x).tolist(), "logarithmic"
    return [float(i) for i in range(len(x))], "evenly spaced"
