"""`tables`, the audit, `explain` and the claims do not contradict each other about any number."""

import pandas as pd
import pytest

from analysis import audit, explain, reports
from analysis.audit import findings as judging
from analysis.audit.findings import point_location
from analysis.claims.numbers import VERDICT_NAMES, Data, Report, listed
from analysis.curves import SETTING, SIZE, lookup, noises, rate_curves
from analysis.derived import computed_rows
from analysis.explain import runs, text
from analysis.stats.verdict import together
from analysis.study import Study
from tests.helpers.published_claims import derived_numbers, judged_claims

pytestmark = pytest.mark.slow  # every rule over every point

# The rules of the audit about derived numbers that a report states, and their quantities.
SAME_NUMBER = {
    "stated_speedup": ("speedup_throughput",),
    "stated_efficiency": ("efficiency_throughput",),
    "percentage_base": tuple(reports.CHANGES),
    "size_in_bytes": ("model_bytes",),
}


def test_tables_has_the_verdict_of_every_line():
    table = reports.recompute(Study().published)
    agrees = [None if pd.isna(answer) else bool(answer) for answer in table.loc[table["stated"].notna(), "agrees"]]
    answers = {"inside": True, "outside": False, "undecided": None}
    assert len(agrees) > 300
    assert agrees == [answers[line.verdict.outcome] for _, line in derived_numbers()]


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


def test_a_claim_about_a_stated_number_has_the_verdict_of_its_line():
    stated_claims = [item for item in judged_claims() if item.claim.check == "stated"]
    assert len(stated_claims) > 20
    for item in stated_claims:
        numbers = {name: listed(value) for name, value in item.claim.arguments["numbers"].items()}
        report_lines = [line for report, line in derived_numbers() if report == item.claim.report]
        verdicts = [line.verdict for line in report_lines if all(line.row[name] in numbers[name] for name in numbers)]
        assert item.verdict == VERDICT_NAMES[together(verdicts).outcome], item.claim.id


@pytest.fixture(params=["000", "001", "003"])
def rows(request):
    """The numbers of a report."""
    published = Study().published
    return published[published["report"].eq(request.param)]


def test_a_ratio_is_the_same_in_tables_and_in_the_claims(rows):
    data, derived = Data(Report(rows, Study().published)), computed_rows(rows)
    key = ["quantity", "model", "dataset", "gpu", "device", "ranks", "batch_per_rank"]
    values = {tuple(row[name] for name in key): data.number(row).value for row in derived.to_dict("records")}
    for line in reports.derived_numbers(rows):
        point = tuple(line.row[name] for name in key)
        if line.row["quantity"] == "efficiency_throughput" and point in values and line.base is not None:
            assert line.computed.value == pytest.approx(values[point]), point


def test_a_point_has_one_interval_in_the_audit_and_in_the_claims(rows):
    numbers = pd.concat([rows, computed_rows(rows)], ignore_index=True)
    data, noisy = Data(Report(numbers, Study().published), "any run"), noises(rows)
    efficiency = lookup(numbers[numbers["quantity"].eq("efficiency_throughput")], [*SETTING, *SIZE, "kind"])
    intervals = []
    for curve in rate_curves(rows):
        base, *points = curve.to_dict("records")
        for row in points:
            (claimed,) = efficiency({**row, "kind": "computed"})
            audited = judging.efficiency(judging.speedup(row, base, noisy), row["ranks"] / base["ranks"])
            mine, theirs = (audited.value, audited.low, audited.high), data.number(claimed)
            assert mine == pytest.approx((theirs.value, theirs.low, theirs.high), rel=2e-3, nan_ok=True), row["place"]
            intervals.append(audited.has_interval)
    assert any(intervals) == (rows["report"].iloc[0] != "001")  # report 001 prints the ends of its curves alone


def test_the_audit_names_the_points_that_explain_names():
    rows = Study().published[Study().published["report"].eq("000")]
    points, _ = runs.points(rows, "table")
    explained = [explain.explain(curve, name) for name, curve in runs.curves(points)]
    findings = audit.table_findings(rows)
    for rule, sentences in (
        ("wall_time_misfit", [text.misfit(point) for curve in explained for point in curve.misfits.to_dict("records")]),
        ("too_short", [finding.says for curve in explained for finding in curve.findings]),
    ):
        meanings = [finding.meaning for finding in findings if finding.rule == rule]
        assert len(meanings) == len(sentences), rule
        assert all(any(sentence in meaning for meaning in meanings) for sentence in sentences), rule
