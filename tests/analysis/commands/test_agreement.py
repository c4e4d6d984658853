"""`tables`, the audit, `compare` and the claims, over all points: none contradicts another about the same number."""

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

# Which findings of the audit are about a derived number that a report states, and of which quantities.
SAME_NUMBER = {
    "stated_speedup": ("speedup_throughput",),
    "stated_efficiency": ("efficiency_throughput",),
    "percentage_base": tuple(reports.CHANGES),
    "size_in_bytes": ("model_bytes",),
}


def test_tables_has_the_verdict_of_every_line():
    table = reports.recompute(Study().published)
    shown = [None if pd.isna(answer) else bool(answer) for answer in table.loc[table["stated"].notna(), "agrees"]]
    answers = {"inside": True, "outside": False, "undecided": None}
    assert len(shown) > 300
    assert shown == [answers[line.verdict.outcome] for _, line in derived_numbers()]


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
    about = [item for item in judged_claims() if item.claim.check == "stated"]
    assert len(about) > 20
    for item in about:
        numbers = {name: listed(value) for name, value in item.claim.arguments["numbers"].items()}
        of_report = [line for report, line in derived_numbers() if report == item.claim.report]
        mine = [line.verdict for line in of_report if all(line.row[name] in numbers[name] for name in numbers)]
        assert item.verdict == VERDICT_NAMES[together(mine).outcome], item.claim.id


@pytest.fixture(params=["000", "001", "003"])
def rows(request):
    """The numbers of a report."""
    published = Study().published
    return published[published["report"].eq(request.param)]


def test_a_ratio_is_what_it_is_in_tables_and_in_the_claims(rows):
    data, derived = Data(Report(rows, Study().published)), computed_rows(rows)
    key = ["quantity", "model", "dataset", "gpu", "device", "ranks", "batch_per_rank"]
    by = {tuple(row[name] for name in key): data.number(row).value for row in derived.to_dict("records")}
    for line in reports.derived_numbers(rows):
        point = tuple(line.row[name] for name in key)
        if line.row["quantity"] == "efficiency_throughput" and point in by and line.base is not None:
            assert line.computed.value == pytest.approx(by[point]), point


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
    assert any(intervals) == (rows["report"].iloc[0] != "001")  # which prints the ends of its curves alone


def test_the_audit_names_the_points_that_explain_names():
    rows = Study().published[Study().published["report"].eq("000")]
    points, _ = runs.points(rows, "table")
    explained = {name: explain.explain(curve, name) for name, curve in runs.curves(points)}
    findings = audit.table_findings(rows)
    for rule, printed in (
        ("wall_time_misfit", [text.misfit(p) for one in explained.values() for p in one.misfits.to_dict("records")]),
        ("too_short", [result.says for one in explained.values() for result in one.findings]),
    ):
        result = [finding.meaning for finding in findings if finding.rule == rule]
        assert len(result) == len(printed), rule
        assert all(any(sentence in meaning for meaning in result) for sentence in printed), rule
