"""A scaling study in a user's table: its tidy table, which rules could run, and rules over its runs."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import atlas
from analysis.audit.audited_table import AuditedTable
from analysis.audit.curve_rules import beyond_ideal
from analysis.audit.findings import Rule, finding, rule
from analysis.audit.identities import BATCHES, IMAGES, TIMES, Identity, checkable, contradictions, stated_columns
from analysis.finding import Finding
from analysis.thresholds import limit
from analysis.user_table import rates
from analysis.user_table.headers import TEXT
from analysis.user_table.table_contract import UserTable
from common.terminal import counted

RUN_RULES: dict[str, Rule] = {}
MODELS = Path(__file__).with_name("models.csv")
CONDITIONS = ("gpu", "machine", "precision", "dataset", "framework")
_WINOGRAD = 2.25  # times fewer multiplications of a 3x3 convolution (Lavin and Gray, CVPR'16)


def _at(run: pd.Series) -> str:
    return f"{run['place']}: {counted(float(run['ranks']), 'rank')}"


@rule(RUN_RULES)
def contradiction(table: UserTable) -> Iterator[Finding]:
    """Report a number that contradicts others of its run: `identities.IDENTITIES` lists what follows from what."""
    return contradictions(table)


@rule(RUN_RULES)
def times_beyond_ideal(table: UserTable) -> Iterator[Finding]:
    """Report times of equal work from which a speedup above the number of ranks follows, as `beyond_ideal` of rates."""
    runs = table.runs
    if "images_per_s" in runs or not {*rates.TIMES} & {*runs} or runs["scaling"].eq("").all():
        return
    rated = runs.drop(columns=[*TIMES], errors="ignore").drop(columns=["speedup", "efficiency"], errors="ignore")
    speeds = rates.rates(runs)
    rated = rated.assign(images_per_s=speeds["rate"], work=speeds["work"])
    time = next(name for name in rates.TIMES if name in runs)
    for beyond in beyond_ideal(
        AuditedTable(replace(table, runs=rated, rounding=pd.DataFrame(index=runs.index)).tidy())
    ):
        yield replace(beyond, stated=re.sub(r"by \S+$", f"by {time}", beyond.stated))


@rule(RUN_RULES)
def impossible_rate(table: UserTable) -> Iterator[Finding]:
    """Report more images/s than the arithmetic of a device allows, as 8,000 images/s of ResNet-50 on one K80.

    Training takes 2 x 3 operations for each multiplication of a forward pass (models.csv), fewer by Winograd's method;
    the peak is that of the fastest format (accelerators.csv). Images of another dataset than ImageNet may be smaller.
    """
    runs = table.runs
    if "images_per_s_per_rank" not in runs or not set(runs["work"]) <= {*IMAGES}:
        return
    gmacs, peaks = (
        pd.read_csv(path, index_col=0)[column].dropna().to_dict()
        for path, column in ((MODELS, "gmacs"), (atlas.ACCELERATORS, "peak_tflops"))
    )
    for _, run in runs[runs["images_per_s_per_rank"].notna()].iterrows():
        texts = {name: str(run.get(name, "")) for name in (*CONDITIONS, "model", "setting")}
        model = _named(texts["model"] + " " + texts["setting"], gmacs)
        device = _named(texts["gpu"] + " " + texts["machine"] + " " + texts["setting"], peaks)
        if not model or not device:
            continue
        most = peaks[device] * 1e3 / (6 * gmacs[model] / _WINOGRAD)
        rate = float(run["images_per_s_per_rank"])
        if rate > most:
            sure = bool(re.search("imagenet|ilsvrc", texts["dataset"], re.I))
            meaning = f"A {device} does {peaks[device]:g} TFLOP/s at most, in its fastest format."
            if not sure:
                meaning += " Smaller images than those of ImageNet take less: the dataset is not given as ImageNet."
            stated, follows = f"{rate:g} images/s on one {device}", f"{most:.4g} images/s of {model} or less"
            yield finding(_at(run), "serious" if sure else "note", stated, follows, rate / most - 1, meaning)


def _named(text: str, names: Mapping[Any, float]) -> str:
    """Return the one of these names that a text has, else "". "resnet_v1_50" and "ResNet-50" are the same name."""
    plain = re.sub(r"(?<=[a-z])v1(?=\d)|[^a-z0-9 ]", "", re.sub(r"[_-]", "", text.lower()))
    matching = [
        name for name in names if re.search(rf"(?<![a-z0-9]){re.sub('[^a-z0-9]', '', name.lower())}(?![0-9])", plain)
    ]
    return matching[0] if len(matching) == 1 else ""


@rule(RUN_RULES)
def different_conditions(table: UserTable) -> Iterator[Finding]:
    """Report a stated speedup over a run in another condition: another device, precision, data, framework or batch.

    The base is the run of the same model whose speedup is stated as 1, if the run's own conditions have none. Batches
    differ if both that of a rank and that of all ranks differ.
    """
    runs, names = table.runs, stated_columns(table)
    if "speedup" not in names:
        return
    conditions = [name for name in CONDITIONS if name in runs]
    others = [name for name in TEXT if name in runs and name not in conditions]
    for _, same in runs.groupby(others, dropna=False, sort=False) if others else [((), runs)]:
        bases = same[same["speedup"].eq(1)]
        for _, run in same[same["speedup"].gt(0) & same["speedup"].ne(1)].iterrows():
            own_bases = bases[(bases[conditions] == run[conditions]).all(axis=1)] if conditions else bases
            if bases.empty or own_bases["ranks"].gt(run["ranks"]).any():
                continue
            base = (bases if own_bases.empty else own_bases).iloc[0]
            differ = [name for name in conditions if base[name] != run[name]] if own_bases.empty else []
            both = names & {*BATCHES} and pd.notna(run[[*BATCHES]]).all() and own_bases["ranks"].ne(run["ranks"]).any()
            if both and all((own_bases[name].notna() & own_bases[name].ne(run[name])).all() for name in BATCHES):
                differ += [*BATCHES]
            if differ:
                each = "; ".join(f"{BATCHES.get(name, name)}: {base[name]} and {run[name]}" for name in differ)
                stated_text = f"{run['speedup']:g}x over {base['place']}"
                meaning = "It compares the conditions too, not only the number of ranks."
                yield finding(_at(run), "warning", stated_text, f"a base in the same condition ({each})", None, meaning)


@rule(RUN_RULES)
def weak_or_strong(table: UserTable) -> Iterator[Finding]:
    """Report a table whose headers name strong scaling although it keeps the batch per rank, or weak although not.

    Strong scaling keeps the global batch, weak scaling that of a rank. Tables that do not state the scope of their
    batch are left out.
    """
    runs = table.runs
    if not stated_columns(table) & {*BATCHES} or not {*BATCHES} <= {*runs}:
        return
    for reading in table.readings:
        scaling = re.search(r"\b(strong|weak)[ -]scaling\b", reading.text, re.I)
        if scaling and reading.name in ("speedup", "efficiency"):
            yield from _contradicted(scaling[1].lower(), reading.text, runs[runs[reading.name].notna()])


def _contradicted(scaling: str, header: str, runs: pd.DataFrame) -> Iterator[Finding]:
    """Yield one finding if every curve keeps the batch that such scaling does not keep."""
    runs = runs.assign(batch_per_rank=runs["global_batch"] / runs["ranks"])  # with what it accumulates before a step
    curves = [curve for curve in rates.curves(runs) if curve["ranks"].nunique() > 1]

    def keeps(curve: pd.DataFrame, name: str) -> bool:  # one batch at all numbers of ranks, for each measured with
        return len({tuple(sorted(set(batches.dropna()))) for _, batches in curve.groupby("ranks")[name]}) == 1

    opposite, (same, varied) = ("weak", [*BATCHES]) if scaling == "strong" else ("strong", [*BATCHES][::-1])
    if curves and all(keeps(curve, same) and not keeps(curve, varied) for curve in curves):
        first = curves[0].iloc[0]
        follows = f"{opposite} scaling: {BATCHES[same]} is {first[same]:g} at every number of ranks"
        most = counted(float(runs["ranks"].max()), "rank")
        meaning = (
            f"{scaling.capitalize()} scaling would keep {BATCHES[varied]}: a reader would expect another curve beyond "
            f"{most}."
        )
        yield finding(f"{first['place']}: '{header}'", "warning", f"{scaling} scaling", follows, None, meaning)


_RATE, _TIMES = "images_per_s.*", "|".join(TIMES)
_RATIOS, _BATCHES = "speedup|efficiency", "|".join(BATCHES)
# Needs of the rules: patterns, each of which one quantity of the tidy table must fit, or one column for a rule over
# runs; and their text.
_NEEDS = {
    "beyond_ideal": ((rf"{_RATE}|speedup_.*",), "rates or speedups"),
    "more_ranks_no_faster": (("images_per_s|epoch_s|wall_s|job_s",), "rates or times"),
    "copied_values": ((rf"{_RATE}|wall_s|job_s",), "rates or times"),
    "coarse_clock": (("wall_s|epoch_s|init_s",), "times"),
    "parts_and_total": (("init_s", "wall_s", "job_s"), "times of the start, the training and the job"),
    "unequal_work": (("steps_per_rank.*",), "steps"),
    "wall_time_misfit": (("wall_s", "steps_per_rank.*"), "wall times with steps and batches"),
    "too_short": (("wall_s", "steps_per_rank.*", _RATE), "wall times with steps, batches and rates"),
    "times_beyond_ideal": ((_TIMES,), "times"),
    "impossible_rate": ((_RATE, "model|setting", "gpu|machine|setting"), "rates of a model on a GPU"),
    "different_conditions": (("speedup", "|".join((*CONDITIONS, *BATCHES))), "speedups beside batches or conditions"),
    "weak_or_strong": ((_RATIOS, _BATCHES), "speedups beside batches"),
}


def tidy_study(table: UserTable) -> tuple[pd.DataFrame, list[str]]:
    """Return the tidy table of a study and notes on what was left out. Raises TableError for an unsound tidy table."""
    tidy = table.tidy()
    notes = list(table.notes)
    if table.published is None and tidy["repeat"].isna().all():
        margin = limit("single_runs")
        notes.append(f"each point was measured once: without repeats, differences of up to {margin:.0%} may be noise")
    return tidy, [*notes, *_rules(tidy, table.runs, checkable(table))]


def _rules(tidy: pd.DataFrame, runs: pd.DataFrame, identities: list[Identity]) -> Iterator[str]:
    """Yield notes on which rules over a study could not run, with what they lack, and which ran."""
    quantities, columns = set(tidy["quantity"]), {*map(str, runs)}
    ran, missing = [], []
    for name, (patterns, wanted) in _NEEDS.items():
        names = columns if name in RUN_RULES else quantities
        able = all(any(re.fullmatch(pattern, there) for there in names) for pattern in patterns)
        if able and not (name == "times_beyond_ideal" and "images_per_s" in columns):
            ran.append(name)
        else:
            missing.append(f"{name} (no {wanted})")
    if missing:
        yield f"rules that could not run: {', '.join(missing)}"
    yield f"rules that ran: {', '.join(ran) or 'none'}"
    texts = [f"{identity.quantity} = {identity.text}" for identity in identities]
    yield f"identities that were checked: {', '.join(texts) or 'none'}"
