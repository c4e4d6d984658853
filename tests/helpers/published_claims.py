"""The claims about the published numbers, judged once a process: that takes seconds."""

import functools

from analysis import claims, reports
from analysis.claims import Judged
from analysis.derived import Derived
from analysis.study import Study


@functools.cache
def judged_claims() -> list[Judged]:
    """Every claim with its verdict, without local records."""
    return claims.judge(claims.read(), Study())


@functools.cache
def derived_numbers() -> list[tuple[str, Derived]]:
    """Every stated number that can be recomputed, with its report."""
    return [
        (str(report), line)
        for report, rows in Study().published.groupby("report")
        for line in reports.derived_numbers(rows)
        if line.row["value"] == line.row["value"]  # NaN: only plotted
    ]
