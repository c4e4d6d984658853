"""The findings of single rules of the audit."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from analysis import audit  # noqa: F401 - adds its rules to the lists
from analysis.audit.audited_table import AuditedTable
from analysis.audit.findings import RECORD_RULES, TABLE_RULES
from analysis.finding import Finding
from record.schema import RunRecord
from tests.helpers.tidy_rows import table


def record_findings(name: str, run: RunRecord) -> list[Finding]:
    """Return the findings of the rule with this name over a record."""
    return list(RECORD_RULES[name](run, "the/record.json"))


def row_findings(name: str, *rows: dict) -> list[Finding]:
    """Return the findings of the rule with this name over the rows of a table."""
    return list(TABLE_RULES[name](AuditedTable(table(*rows))))


def check(findings: Sequence[Finding], expected: Sequence[str | float | None]) -> None:
    """Assert that there is no finding, or one with the expected severity, `off` and parts of its texts."""
    assert len(findings) == bool(expected), findings
    for finding in findings:
        severity, off, *texts = expected
        assert (finding.severity, finding.off) == (severity, pytest.approx(off, abs=5e-4))
        assert [text for text in texts if str(text) not in str(finding)] == [], finding
