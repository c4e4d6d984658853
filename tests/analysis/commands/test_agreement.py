"""`tables`, the audit, `explain` and the claims do not contradict each other about any number."""

import math

import pytest

from analysis import audit, claims, explain, reports
from analysis.audit.findings import point_location
from analysis.explain import runs, text
from analysis.study import Study
from tests.helpers.published_claims import derived_numbers

pytestmark = pytest.mark.slow  # every rule over every point

VERDICTS = {"inside": "supported", "outside": "contradicted", "undecided": "not decidable"}

# The rules of the audit about derived numbers that a report states, and their quantities.
SAME_NUMBER = {
    "stated_speedup": ("speedup_throughput",),
    "stated_efficiency": ("efficiency_throughput",),
    "percentage_base": tuple(reports.CHANGES),
    "size_in_bytes": ("model_bytes",),
}


def test_the_audit_alleges_what_tables_contradict_and_nothing_else():
    findings = audit.table_findings(Study().published)
    for rule, quantities in SAME_NUMBER.items():
        alleged = {finding.place: finding.severity for finding in findings if finding.rule == rule}
        places = {"inside": set(), "outside": set(), "undecided": set()}
        for _, line in derived_numbers():
            if line.row["quantity"] in quantities:
                places[line.verdict.outcome].add(point_location(line.row))
        assert places["outside"] <= set(alleged) <= places["outside"] | places["undecided"], rule
        assert {alleged[place] for place in set(alleged) - places["outside"]} <= {"note"}, rule


def test_a_claim_about_a_stated_number_has_the_numbers_and_the_verdict_of_its_lines():
    lines: dict[str, set[tuple[str, str]]] = {}
    for report, line in derived_numbers():
        follows = "" if math.isnan(line.computed.value) else f"{line.computed} follows, "
        text = f"{line.row['value']:.4g} stated, {follows}{line.formula}"
        lines.setdefault(report, set()).add((text, VERDICTS[line.verdict.outcome]))
    stated = [claim for claim in claims.read() if claim.rule.startswith("stated: ")]
    assert len(stated) == 26
    for claim in stated:
        if claim.evidence.startswith("no derived number"):
            assert claim.verdict == "not decidable"
            continue
        verdicts = [verdict for text, verdict in lines[claim.report] if text in claim.evidence]
        assert verdicts, claim.id
        assert claim.verdict == max(verdicts, key=["supported", "not decidable", "contradicted"].index), claim.id


def test_the_audit_names_the_points_that_explain_names():
    rows = Study().published[Study().published["report"].eq("000")]
    points, _ = runs.points(rows, "table")
    explained = [explain.explain(curve, name) for name, curve in runs.curves(points)]
    findings = audit.table_findings(rows)
    for rule, sentences in (
        ("wall_time_misfit", [text.misfit(point) for curve in explained for point in curve.misfits.to_dict("records")]),
        ("too_short", [finding.meaning for curve in explained for finding in curve.findings]),
    ):
        meanings = [finding.meaning for finding in findings if finding.rule == rule]
        assert len(meanings) == len(sentences), rule
        assert all(any(sentence in meaning for meaning in meanings) for sentence in sentences), rule
