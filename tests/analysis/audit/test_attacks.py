import numpy as np
import pytest

from analysis.audit import launch_findings
from analysis.study import Study
from benchmarks.faults import record_attacks
from benchmarks.faults.record_attacks import ATTACKS

pytestmark = pytest.mark.slow  # each writes and reads a folder of records


def audited(runs, folder):
    record_attacks.write(runs, folder)
    return launch_findings(Study(folder))


@pytest.mark.parametrize("name", [name for name, attack in ATTACKS.items() if attack.rules])
def test_records_that_were_edited_and_signed_again_are_found(name, tmp_path):
    """At least one of the rules that can find the edit does; benchmarks/audit_power.py counts how often."""
    result = audited(record_attacks.attacked(name, np.random.default_rng(2)), tmp_path)
    fired = {finding.rule for finding in result if ATTACKS[name].as_note or finding.severity != "note"}
    assert fired & set(ATTACKS[name].rules)


@pytest.mark.parametrize("name", record_attacks.INNOCENT)
def test_unmodified_records_have_no_finding(name, tmp_path):
    result = audited(record_attacks.attacked(name, np.random.default_rng(2)), tmp_path)
    assert {finding.rule for finding in result if finding.severity != "note"} <= {"failed_run"}
    assert name != "clean" or {finding.rule for finding in result} <= {"failed_run"}
