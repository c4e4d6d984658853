"""`tables`, the audit, `compare` and the claims, over all points: none contradicts another about the same number."""

import pandas as pd
import pytest

from analysis import audit, explain, reports
from analysis.audit import findings as judging
from analysis.audit.findings import point_location
from analysis.claims.numbers import VERDICT_NAMES, Data, Report, listed
from analysis.compare import published as compare
from analysis.compare import tolerances
from analysis.curves import SETTING, SIZE, lookup, noises, rate_curves
from analysis.derived import computed
from analysis.explain import runs, text
from analysis.stats.verdict import together
from analysis.study import Study
from tests.helpers.judged import judged, lines
from tests.helpers.own_records import Arm, make_rounds, save

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
    printed = table[table["stated"].notna()]
    answers = {"inside": True, "outside": False, "undecided": None}
    shown = [None if pd.isna(answer) else bool(answer) for answer in printed["agrees"]]
    assert len(shown) == len(lines()) > 300
    assert shown == [answers[line.verdict.outcome] for _, line in lines()]


def test_the_audit_alleges_what_tables_contradict_and_nothing_else():
    findings = audit.table_findings(Study().published)
    for rule, quantities in SAME_NUMBER.items():
        result = {finding.place: finding for finding in findings if finding.rule == rule}
        of = [line for _, line in lines() if line.row["quantity"] in quantities]
        wrong = {point_location(line.row) for line in of if line.verdict.outcome == "outside"}
        unclear = {point_location(line.row) for line in of if line.verdict.outcome == "undecided"}
        assert wrong <= set(result) <= wrong | unclear, rule
        assert all(result[location].severity == "note" for location in set(result) - wrong), rule


def test_a_claim_about_a_stated_number_has_the_verdict_of_its_line():
    about = [item for item in judged() if item.claim.check == "stated"]
    assert len(about) > 20
    for item in about:
        numbers = {name: listed(value) for name, value in item.claim.arguments["numbers"].items()}
        mine = [
            line
            for report, line in lines()
            if report == item.claim.report and all(line.row[name] in values for name, values in numbers.items())
        ]
        assert item.verdict == VERDICT_NAMES[together([line.verdict for line in mine]).outcome], item.claim.id


def test_a_ratio_is_what_it_is_in_tables_and_in_the_claims():
    numbers = Study().published
    for report in ("000", "001", "003"):
        rows = numbers[numbers["report"].eq(report)]
        data = Data(Report(rows, numbers))
        computed_rows = computed(rows)
        key = ["quantity", "model", "dataset", "gpu", "device", "ranks", "batch_per_rank"]
        by = {tuple(row[name] for name in key): data.number(row).value for row in computed_rows.to_dict("records")}
        for line in reports.derived_numbers(rows):
            point = tuple(line.row[name] for name in key)
            if line.row["quantity"] == "efficiency_throughput" and point in by and line.base is not None:
                assert line.computed.value == pytest.approx(by[point]), point


def test_a_point_has_one_interval_in_the_audit_and_in_the_claims():
    numbers, compared, known_ones = Study().published, 0, 0
    for report in ("000", "001", "003"):
        rows = numbers[numbers["report"].eq(report)]
        data, noisy = (
            Data(Report(pd.concat([rows, computed(rows)], ignore_index=True), numbers), "any run"),
            noises(rows),
        )
        efficiency = lookup(data.table[data.table["quantity"].eq("efficiency_throughput")], [*SETTING, *SIZE, "kind"])
        for curve in rate_curves(rows):
            base, *points = curve.to_dict("records")
            for row in points:
                (claimed,) = efficiency({**row, "kind": "computed"})
                audited = judging.efficiency(judging.speedup(row, base, noisy), row["ranks"] / base["ranks"])
                mine, theirs = (audited.value, audited.low, audited.high), data.number(claimed)
                assert mine == pytest.approx((theirs.value, theirs.low, theirs.high), rel=2e-3, nan_ok=True), row[
                    "place"
                ]
                compared, known_ones = compared + 1, known_ones + (audited.low == audited.low)
    assert compared > 50
    assert known_ones > 20


def test_the_audit_names_the_points_that_explain_names():
    rows = Study().published[Study().published["report"].eq("000")]
    points, _ = runs.points(rows, "table")
    explained = {name: explain.explain(curve, name) for name, curve in runs.curves(points)}
    findings = [finding for finding in audit.table_findings(rows)]
    for rule, printed in (
        ("wall_time_misfit", [text.misfit(p) for one in explained.values() for p in one.misfits.to_dict("records")]),
        ("too_short", [result.says for one in explained.values() for result in one.findings]),
    ):
        result = [finding.meaning for finding in findings if finding.rule == rule]
        assert len(result) == len(printed), rule
        assert all(any(sentence in meaning for meaning in result) for sentence in printed), rule


def test_a_claim_about_a_prediction_has_the_verdict_of_its_line():
    about = {item.claim.id: item for item in judged() if item.claim.check == "predicted"}
    assert set(about) == {"002-almost-linear-to-256", "004-prediction-job", "004-prediction-epoch"}
    for name, quantity in (("004-prediction-job", "job_s"), ("004-prediction-epoch", "epoch_s")):
        (line,) = [
            d for r, d in lines() if r == "004" and d.row["kind"] == "predicted" and d.row["quantity"] == quantity
        ]
        assert about[name].verdict == VERDICT_NAMES[line.verdict.outcome] == "not decidable"
        assert "2 numbers of ranks measured, at least 3 are needed" in about[name].evidence
    assert "no numbers of ranks measured" in about["002-almost-linear-to-256"].evidence


@pytest.mark.parametrize(("off", "shared"), [(-0.05, False), (-0.15, False), (0.25, False), (0.0, True)])
def test_compare_judges_the_points_that_the_audit_trusts(results, off, shared):
    system, launcher = {"name": "laptop", "cpus_per_node": 0.4}, {"name": "emulated", "flat_within_fraction": 0.1}
    arms = [Arm(1), Arm(2), Arm(8), Arm(2, allreduce=False), Arm(8, allreduce=False)]
    rounds = [(0.5, 0.52, 0.58 + n % 3 / 1e3, 0.5, 0.5 / (1 + off)) for n in range(12)]
    run = make_rounds(rounds, arms, system=system, launcher=launcher)
    run.cores_shared = shared
    save(run, results.folder)
    own = Study(results.folder)
    compared = compare.compare(Study().published, own.local, tolerances.read())
    rules = {finding.rule for finding in audit.record_findings(own)}
    distrusted = bool(rules & {"emulated_nodes_disturbed", "cores_shared"})
    judged = [row for row in compared.rows if row.at == 8 and row.p_value is not None]
    assert bool(judged) is not distrusted
    assert distrusted is (shared or abs(off) > 0.1)
