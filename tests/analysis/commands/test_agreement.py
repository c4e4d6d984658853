"""Commands do not contradict each other about any number: of the reports, or of a user's records."""

import math

import pytest

from analysis import audit, judged_claims, reports
from analysis.audit.findings import point_location
from analysis.study import Study

VERDICTS = {"inside": "supported", "outside": "contradicted", "undecided": "not decidable"}

# The rules of the audit about derived numbers that a report states, and their quantities.
SAME_NUMBER = {
    "stated_speedup": ("speedup_throughput", "efficiency_throughput"),
    "percentage_base": tuple(reports.CHANGES),
    "size_in_bytes": ("model_bytes",),
}


@pytest.fixture(scope="module")
def derived():
    """Every stated number that can be recomputed, with its report."""
    return [
        (str(report), line)
        for report, rows in Study().published.groupby("report")
        for line in reports.derived_numbers(rows)
        if not math.isnan(line.row["value"])  # NaN: only plotted
    ]


@pytest.mark.slow  # every rule over every point
def test_the_audit_alleges_what_tables_contradict_and_nothing_else(derived):
    findings = audit.table_findings(Study().published)
    for rule, quantities in SAME_NUMBER.items():
        alleged = {finding.place: finding.severity for finding in findings if finding.rule == rule}
        places = {"inside": set(), "outside": set(), "undecided": set()}
        for _, line in derived:
            if line.row["quantity"] in quantities:
                places[line.verdict.outcome].add(point_location(line.row))
        assert places["outside"] <= set(alleged) <= places["outside"] | places["undecided"], rule
        assert {alleged[place] for place in set(alleged) - places["outside"]} <= {"note"}, rule


@pytest.mark.slow
def test_a_claim_about_a_stated_number_has_the_numbers_and_the_verdict_of_its_lines(derived):
    lines: dict[str, set[tuple[str, str]]] = {}
    for report, line in derived:
        follows = "" if math.isnan(line.computed.value) else f"{line.computed} follows, "
        text = f"{line.row['value']:.4g} stated, {follows}{line.formula}"
        lines.setdefault(report, set()).add((text, VERDICTS[line.verdict.outcome]))
    stated = [claim for claim in judged_claims.read_claims() if claim.rule.startswith("stated: ")]
    assert len(stated) == 26
    for claim in stated:
        if claim.evidence.startswith("no derived number"):
            assert claim.verdict == "not decidable"
            continue
        verdicts = [verdict for text, verdict in lines[claim.report] if text in claim.evidence]
        assert verdicts, claim.id
        assert claim.verdict == max(verdicts, key=["supported", "not decidable", "contradicted"].index), claim.id
