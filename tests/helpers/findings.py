"""What single rules of the audit find."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from analysis import audit  # noqa: F401 - adds its rules to the lists
from analysis.audit.findings import RECORD_RULES, TABLE_RULES, Finding
from tests.helpers.tidy_rows import table
from train.record.record import RunRecord


def record_findings(name: str, run: RunRecord) -> list[Finding]:
    """The findings of one rule over records, by its name."""
    return list(RECORD_RULES[name](run, "the/record.json"))


def row_findings(name: str, *rows: dict) -> list[Finding]:
    """The findings of one rule over the rows of a table, by its name."""
    return list(TABLE_RULES[name](table(*rows)))


def check(findings: Sequence[Finding], expected: Sequence[str | float | None]) -> None:
    """Assert that nothing is alleged, or what is expected in one finding: severity, `off` and words of its texts."""
    assert len(findings) == bool(expected), findings
    for one in findings:
        severity, off, *words = expected
        assert (one.severity, one.off) == (severity, pytest.approx(off, abs=5e-4))
        assert [word for word in words if str(word) not in str(one)] == [], one
