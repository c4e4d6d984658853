"""What single rules of the audit find."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pandas as pd

from analysis.audit.findings import RECORD_RULES, Finding
from tests.helpers.tidy_rows import table
from train.record.record import RunRecord


def record_findings(name: str, run: RunRecord) -> list[Finding]:
    """The findings of one rule over records, by its name."""
    return list(RECORD_RULES[name](run, "the/record.json"))


def row_findings(rule: Callable[[pd.DataFrame], Iterator[Finding]], *rows: dict) -> list[Finding]:
    """The findings of one rule over the rows of a table."""
    return list(rule(table(*rows)))
