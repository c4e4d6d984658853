"""A scaling study in a user's table: its tidy table for the rules, and notes on which rules could run."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pandas as pd

from analysis.audit.user_runs import BATCHES, CONDITIONS, TIMES
from analysis.thresholds import limit
from analysis.user_table.table import UserTable

_RATE = r"images_per_s.*"
_RATES = ("images_per_s", "images_per_s_per_rank")
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
# The same for rules over runs (user_runs.py): columns, one of each of which must be there, and their text.
_RUNS_NEED = {
    "rate_times_time": ((_RATES, ("step_s", "epoch_s", "images")), "rates beside times of steps or epochs"),
    "speedup_from_times": ((("speedup", "efficiency"), TIMES), "speedups beside times alone"),
    "impossible_rate": ((_RATES, ("model", "setting"), ("gpu", "machine", "setting")), "rates of a model on a GPU"),
    "different_conditions": ((("speedup",), (*CONDITIONS, *BATCHES)), "speedups beside batches or conditions"),
    "weak_or_strong": ((("speedup", "efficiency"), BATCHES), "speedups beside batches"),
}


def read(table: UserTable) -> tuple[pd.DataFrame, list[str]]:
    """Return the tidy table of a study and notes on what was left out. Raises TableError for an unsound tidy table."""
    tidy = table.tidy()
    notes = list(table.notes)
    if table.published is None and tidy["repeat"].isna().all():
        margin = limit("single_runs")
        notes.append(f"each point was measured once: without repeats, differences of up to {margin:.0%} may be noise")
    return tidy, [*notes, *_rules(tidy, table.runs)]


def _rules(tidy: pd.DataFrame, runs: pd.DataFrame) -> Iterator[str]:
    """Yield notes on which rules over a study could run, and which could not for lack of what."""
    quantities = set(tidy["quantity"])
    able = {
        name: all(any(re.fullmatch(pattern, quantity) for quantity in quantities) for pattern in patterns)
        for name, (patterns, _) in _NEEDS.items()
    }
    able |= {name: all({*runs} & {*group} for group in groups) for name, (groups, _) in _RUNS_NEED.items()}
    able["speedup_from_times"] &= "images_per_s" not in runs
    wants = {name: text for name, (_, text) in (*_NEEDS.items(), *_RUNS_NEED.items())}
    if missing := [f"{name} (no {wants[name]})" for name, can in able.items() if not can]:
        yield f"rules that could not run: {', '.join(missing)}"
    yield f"rules that ran: {', '.join(name for name, can in able.items() if can) or 'none'}"
