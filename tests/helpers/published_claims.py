"""The derived numbers of the reports. They are computed once a process, which takes seconds."""

import functools
import math

from analysis import reports
from analysis.derived import Derived
from analysis.study import Study


@functools.cache
def derived_numbers() -> list[tuple[str, Derived]]:
    """Return every stated number that can be recomputed, with its report."""
    return [
        (str(report), line)
        for report, rows in Study().published.groupby("report")
        for line in reports.derived_numbers(rows)
        if not math.isnan(line.row["value"])  # NaN: only plotted
    ]
