"""docs/audit.md lists every rule."""

import re
from pathlib import Path

from analysis import audit  # noqa: F401 - adds all rules to the lists
from analysis.audit.findings import EXPERIMENT_RULES, RECORD_RULES, TABLE_RULES
from analysis.audit.user_tables import RUN_RULES
from analysis.table.checks.check import CHECKS

PAGE = (Path(__file__).parents[2] / "docs" / "audit.md").read_text()
ALSO = {"copied_run", "unreadable_record", "failed_run", "missing_run"}


def test_the_page_lists_every_rule_once_and_no_other():
    rows = [line.split("|")[1] for line in PAGE.splitlines() if line.startswith("| `")]
    listed = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    rules = {*CHECKS, *RECORD_RULES, *EXPERIMENT_RULES, *TABLE_RULES, *RUN_RULES} | ALSO
    assert set(listed) == rules
    assert len(listed) == len(set(listed))
