"""A scaling study in a user's table: its tidy table for the rules, notes, and a rule over its headers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pandas as pd

from analysis.audit.findings import Finding, finding
from analysis.curves import ranks_in_words
from analysis.thresholds import limit
from analysis.user_table.headers import TEXT
from analysis.user_table.table import UserTable

_RATE = r"images_per_s.*"
# What rules over a study need: patterns of quantities, each of which must occur, and their text.
_NEEDS = {
    "beyond_ideal": ((rf"{_RATE}|speedup_.*",), "rates or speedups"),
    "more_ranks_no_faster": (("images_per_s|epoch_s|wall_s|job_s",), "rates or times"),
    "stated_speedup": (("speedup_throughput", "images_per_s"), "speedups beside rates"),
    "stated_efficiency": (("efficiency_throughput", "images_per_s"), "efficiencies beside rates"),
    "copied_values": ((rf"{_RATE}|wall_s|job_s",), "rates or times"),
    "coarse_clock": (("wall_s|epoch_s|init_s",), "times"),
    "parts_and_total": (("init_s", "wall_s", "job_s"), "times of the start, the training and the job"),
    "unequal_work": (("steps_per_rank.*",), "steps"),
    "wall_time_misfit": (("wall_s", "steps_per_rank.*"), "wall times with steps and batches"),
    "too_short": (("wall_s", "steps_per_rank.*", _RATE), "wall times with steps, batches and rates"),
}  # fmt: skip
_BATCHES = {"batch_per_rank": "the batch of a rank", "global_batch": "the global batch"}


def read(table: UserTable) -> tuple[pd.DataFrame, list[str]]:
    """Return the tidy table of a study and notes on what was left out. Raises TableError for an unsound tidy table."""
    tidy = table.tidy()
    notes = list(table.notes)
    if table.published is None and tidy["repeat"].isna().all():
        margin = limit("single_runs")
        notes.append(f"each point was measured once: without repeats, differences of up to {margin:.0%} may be noise")
    return tidy, [*notes, *_rules(tidy)]


def _rules(tidy: pd.DataFrame) -> Iterator[str]:
    """Yield notes on which rules over a study could run, and which could not for lack of what."""
    quantities = set(tidy["quantity"])
    able = {
        name: all(any(re.fullmatch(pattern, quantity) for quantity in quantities) for pattern in patterns)
        for name, (patterns, _) in _NEEDS.items()
    }
    if missing := [f"{name} (no {_NEEDS[name][1]})" for name, can in able.items() if not can]:
        yield f"rules that could not run: {', '.join(missing)}"
        yield f"rules that ran: {', '.join(name for name, can in able.items() if can) or 'none'}"


def weak_or_strong(table: UserTable) -> Iterator[Finding]:
    """Report scaling that the headers of a table call strong while it keeps the batch per rank, or weak while not.

    Strong scaling keeps the global batch, weak scaling that of a rank. Tables that do not say whose batch they give are
    left out.
    """
    runs = table.runs
    guessed = any(one.guess for one in table.readings if one.name in _BATCHES)
    if guessed or not {*_BATCHES} <= {*runs}:
        return
    for reading in table.readings:
        scaling = re.search(r"\b(strong|weak)[ -]scaling\b", reading.header, re.I)
        if scaling and reading.name in ("speedup", "efficiency"):
            yield from _contradicted(table, scaling[1].lower(), reading.header, runs[runs[reading.name].notna()])


def _contradicted(table: UserTable, scaling: str, header: str, runs: pd.DataFrame) -> Iterator[Finding]:
    """Yield one finding if every curve keeps the batch that such scaling does not keep."""
    key = [name for name in TEXT if name in runs]
    curves = [curve for _, curve in runs.groupby(key, dropna=False)] if key else [runs]
    curves = [curve for curve in curves if curve["ranks"].nunique() > 1]
    other, (same, varied) = ("weak", [*_BATCHES]) if scaling == "strong" else ("strong", [*_BATCHES][::-1])
    if curves and all(_keeps(curve, same) and not _keeps(curve, varied) for curve in curves):
        first = curves[0].iloc[0]
        follows = f"{other} scaling: {_BATCHES[same]} is {first[same]:g} at every number of ranks"
        most = ranks_in_words(float(runs["ranks"].max()))
        meaning = (
            f"{scaling.capitalize()} scaling would keep {_BATCHES[varied]}: a reader would expect another curve beyond "
            f"{most}."
        )
        one = finding(f"{first['place']}: '{header}'", "warning", f"{scaling} scaling", follows, None, meaning)
        yield replace(one, report=Path(table.path).name, rule="weak_or_strong")


def _keeps(curve: pd.DataFrame, name: str) -> bool:
    """Return whether a curve has one batch at all numbers of ranks, for each batch that it was measured with."""
    return len({tuple(sorted(set(batches.dropna()))) for _, batches in curve.groupby("ranks")[name]}) == 1
