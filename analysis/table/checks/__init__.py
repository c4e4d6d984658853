"""Checks of one record: two statements of it that cannot both be true."""

from dataclasses import replace

from analysis.table.checks import copies, counts, times  # noqa: F401 - each adds to the checks
from analysis.table.checks.check import CHECKS, Contradiction
from train.record.record import RunRecord


def contradictions(run: RunRecord) -> tuple[Contradiction, ...]:
    """Return the contradictions in a record: the widest of each rule, and how many more there are.

    Raises LookupError, TypeError or ValueError if the record lacks a field that every record of its kind has.
    """
    return tuple(_widest(rule, alike) for rule, check in CHECKS.items() if (alike := [*check(run)]))


def _widest(rule: str, contradictions: list[Contradiction]) -> Contradiction:
    worst = max(contradictions, key=lambda contradiction: abs(contradiction.off or 0))
    more = f" (and {len(contradictions) - 1} more such)" if len(contradictions) > 1 else ""
    return replace(worst, follows=worst.follows + more, rule=rule)
