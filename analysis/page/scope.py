"""The scope of a page about one report: its experiments, figures, and the outcome of its reproduction."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from analysis.figures.entry import Entry
from analysis.study import Study
from train.record import reproduction
from train.record.progress import duration
from train.record.reproduction import Outcome, Reproduction

_ORDER = ("measured", "submitted", "failed", "not run")


@dataclass(frozen=True)
class Scope:
    """One report, the experiments that are its own, and the last reproduction of it, if any."""

    report: str
    experiments: frozenset[str]
    reproduced: Reproduction | None

    def narrowed(self, study: Study) -> Study:
        """Return the study with the local records of its experiments alone."""
        local = study.local[study.local["experiment"].isin(self.experiments)].reset_index(drop=True)
        return study.narrowed(local, [one for one in study.notices if set(Path(one.path).parts) & self.experiments])

    def figures(self, figures: Mapping[str, Entry]) -> dict[str, Entry]:
        """Return its figures, and those of its local records."""
        local = {id for id, entry in figures.items() if (entry.local or {}).get("experiment") in self.experiments}
        return {id: entry for id, entry in figures.items() if entry.report == self.report or
                (entry.published is None and id in local)}  # fmt: skip

    def rows(self) -> list[dict[str, str]]:
        """Return a row for each experiment of the reproduction: its outcome, and why; those that ran come first."""
        outcomes = sorted(self.reproduced.outcomes, key=lambda one: _ORDER.index(one.status)) if self.reproduced else []
        return [
            {
                "experiment": one.experiment,
                "what": one.shows,
                "outcome": one.status,
                "launches": f"{one.runs} of {one.planned}" if one.planned else "",
                "took": duration(one.took_s) if one.took_s >= 1 else "",
                "why": _why(one),
            }
            for one in outcomes
        ]


def _why(one: Outcome) -> str:
    return "; ".join(filter(None, (one.why, *(f"left out: {why}" for why in one.left_out))))


def report_scope(report: str, published: pd.DataFrame, results: Path) -> Scope:
    """Return the scope of a report: experiments with numbers of it, and those that reproduce it."""
    reproduced = reproduction.read(results, report)
    named = set(published.loc[published["report"].eq(report), "experiment"]) - {""}
    return Scope(
        report, frozenset(named | {one.experiment for one in reproduced.outcomes} if reproduced else named), reproduced
    )
