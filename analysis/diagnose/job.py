"""Where the time of a whole job goes: launch, training, evaluation and checkpoints, from the phases of its ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import pandas as pd

from analysis import labels
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.stats.repeats import singles

GROUPS = {
    "launch": ("start", "import", "init", "data", "build", "broadcast", "first_step"),
    "steps": ("warm_up", "timed"),
    "evaluation": ("evaluate",),
    "checkpoints": ("checkpoint",),
    "exit": ("exit",),
}


@dataclass(frozen=True)
class Job:
    """The phases of the launches of one point alone, in seconds."""

    model: str
    series: str  # what tells it from the other series of the model, in words
    nodes: int
    batch_per_rank: int
    parts: Mapping[str, Number]  # by the names of GROUPS
    whole: Number


def jobs(local: pd.DataFrame) -> list[Job]:
    """The jobs of single points among the rows of one experiment, by model and nodes."""
    rows = local[local["kind"].eq("measured") & local["round"].isna()]
    rows = rows[rows["quantity"].str.startswith("phase_") | rows["quantity"].eq("job_s")]
    found = []
    for (model, _, nodes, batch), at in rows.groupby(["model", "series", "nodes", "batch_per_rank"], sort=False):
        of_runs = at.pivot_table(index="record", columns="quantity", values="value")
        parts = {name: _sum(of_runs, phases) for name, phases in GROUPS.items()}
        known = {name: _mean(values) for name, values in parts.items() if values.any()}
        whole = _mean(of_runs["job_s"])
        words = ", ".join(labels.told_apart(at, rows, "batch_per_rank"))
        found.append(Job(str(model), words, int(str(nodes)), int(str(batch)), known, whole))
    return found


def _mean(values: pd.Series) -> Number:
    return repeats.arithmetic_mean(singles(values.tolist()))


def _sum(of_runs: pd.DataFrame, phases: tuple[str, ...]) -> pd.Series:
    return of_runs.reindex(columns=[f"phase_{phase}_s" for phase in phases]).fillna(0.0).sum(axis=1)
