"""docs/audit.md lists every rule."""

import re

from analysis import audit, verify  # noqa: F401 - adds all rules to the lists
from analysis.audit.findings import EXPERIMENT_RULES, RECORD_RULES, TABLE_RULES
from analysis.audit.user_table_rules import RUN_RULES
from tests.helpers import ROOT

ALSO = {"logged_throughput", "unreadable_record", "failed_run", "unconfirmed_number", *verify.RULES}


def test_the_page_lists_every_rule_once_and_no_other():
    lines = (ROOT / "docs/audit.md").read_text().splitlines()
    listed = [name for line in lines if line.startswith("- `") for name in re.findall(r"`(\w+)`", line.split(":")[0])]
    assert sorted(listed) == sorted({*RECORD_RULES, *EXPERIMENT_RULES, *TABLE_RULES, *RUN_RULES, *ALSO})
