"""A derived number: what a report states, beside what follows from its primary numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.curves import Row, row_dicts
from analysis.stats.number import Number
from analysis.stats.verdict import Verdict
from analysis.table.stated import follows


@dataclass(frozen=True, eq=False)
class Derived:
    """A number computed from the primary numbers of a report; `row`: as the report states it, NaN if only plotted."""

    row: Row
    computed: Number
    formula: str
    base: Row | None = None  # what a ratio is over

    @property
    def verdict(self) -> Verdict:
        """Whether what is stated follows."""
        return follows(self.row, self.computed)


def stated(table: pd.DataFrame, *quantities: str) -> Sequence[Row]:
    """The rows of these quantities that a report derives, claims or predicts."""
    rows = table[table["kind"].isin(["stated", "predicted"]) & table["quantity"].isin(quantities)]
    return row_dicts(rows)
