"""A tidy table that is audited, with what several rules read of it, each computed once."""

import contextlib
from dataclasses import dataclass
from functools import cached_property

import pandas as pd

from analysis import TableError, explain
from analysis.curves import Noises, Row, noises
from analysis.explain import wall_time_runs


@dataclass(frozen=True, eq=False)
class AuditedTable:
    """A tidy table, with the noise of its measurements and the splits of its wall times."""

    rows: pd.DataFrame

    @cached_property
    def noises(self) -> Noises:
        """The noise of each measurement."""
        return noises(self.rows)

    @cached_property
    def wall_times(self) -> list[tuple[str, pd.DataFrame, pd.DataFrame]]:
        """Each curve of wall times: its name, its runs for `analysis.explain`, and the rows of its wall times."""
        results = []
        table = self.rows
        # A user's table has no report: its curves differ in data and device too.
        condition = (table["dataset"] + "\0" + table["gpu"] + "\0" + table["machine"]).where(
            table["report"].eq("") & table["source"].eq("published"), ""
        )
        key = [table["source"], table["report"], condition]
        for _, rows in table[table["quantity"].ne("")].groupby(key, sort=False):
            try:
                points, _ = wall_time_runs.points(rows, "table")
            except TableError:
                continue
            for name, curve in wall_time_runs.curves(points):
                walls = rows[rows["quantity"].eq("wall_s") & rows["model"].isin(curve["model"])]
                if "series" in curve:
                    walls = walls[walls["series"].isin(curve["series"])]
                results.append((name, curve, walls))
        return results

    @cached_property
    def explained(self) -> list[tuple[explain.Explanation, pd.DataFrame]]:
        """Each curve of wall times that splits into a fixed cost and a cost per step, with its rows."""
        results = []
        for name, curve, rows in self.wall_times:
            with contextlib.suppress(TableError):
                results.append((explain.explain(curve, name), rows))
        return results

    @cached_property
    def contradictions(self) -> list[tuple[wall_time_runs.Contradiction, Row, pd.DataFrame]]:
        """The contradictions in wall times, each with its last run and the rows of the wall times of its curve."""
        prepared = [(wall_time_runs.prepared(curve), rows) for _, curve, rows in self.wall_times]
        return [
            (pair, runs.loc[pair.runs[-1]].to_dict(), rows)
            for runs, rows in prepared
            for pair in wall_time_runs.contradictions(runs)
        ]
