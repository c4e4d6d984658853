"""A scaling study in a user's table, as a tidy table that the rules read."""

from __future__ import annotations

import pandas as pd

from analysis.thresholds import limit
from analysis.user_table.table import UserTable


def read(table: UserTable) -> tuple[pd.DataFrame, list[str]]:
    """The tidy table of a study, and what was left out of it. Raises TableError for a tidy table that is not sound."""
    tidy = table.tidy()
    notes = list(table.notes)
    if table.published is None and tidy["repeat"].isna().all():
        margin = limit("single_runs")
        notes.append(f"each point was measured once: without repeats, differences of up to {margin:.0%} may be noise")
    return tidy, notes
