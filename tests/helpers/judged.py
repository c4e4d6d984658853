"""The claims about the published numbers, judged once a process: that takes seconds."""

import functools

from analysis.claims import claims
from analysis.claims.claims import Judged
from analysis.reports import derived
from analysis.reports.line import Derived
from analysis.study import Study


@functools.cache
def judged() -> list[Judged]:
    """Every claim with its verdict, without local records."""
    return claims.judge(claims.read(), Study())


@functools.cache
def lines() -> list[tuple[str, Derived]]:
    """Every stated number that can be recomputed, with its report."""
    found = [
        (str(report), line) for report, rows in Study().published.groupby("report") for line in derived.lines(rows)
    ]
    return [(report, line) for report, line in found if line.row["value"] == line.row["value"]]
