import json
import math

import pytest
from msgspec import UNSET

from analysis import documents
from analysis.predict import Doubt, answers, calibration, reading
from analysis.predict.answers import Job, Question, claim_verdict, judge_claim
from analysis.stats.student import student
from analysis.stats.verdict import Bounds
from analysis.study import Study
from tests.helpers.scaling_curves import LEARNED, curve


def ideal(n):
    return 0.01  # 100 images/s a rank


def test_speedup_and_efficiency_are_over_the_fewest_ranks():
    """100 images/s a rank on 2, 4 and 8 ranks: 32 ranks are 3200 images/s, 16 times 2 ranks, efficiency 1."""
    (target,) = answers.answer(curve(ideal, (2, 4, 8)), Question((32,)), LEARNED).targets
    numbers = target.numbers
    assert numbers["images_per_s"].value == pytest.approx(3200)
    assert numbers["speedup"].value == pytest.approx(16)
    assert numbers["efficiency"].value == pytest.approx(1)
    assert numbers["efficiency"].low == pytest.approx(numbers["images_per_s"].low / 3200)
    assert numbers["images_per_s"].low < 3200 < numbers["images_per_s"].high


def test_wall_time_and_cost_of_a_job_worked_by_hand():
    """360,000 images at 3200 images/s: 112.5 s, and 10 s (8 to 12) once; 8 nodes at 4 an hour: 122.5 x 32 / 3600."""
    of = curve(ideal, (2, 4, 8), ranks_per_node=4.0)
    once = student(10, 2 / 4.303, 2, 4)  # Student's t with 2 degrees: 4.303
    (target,) = answers.answer(of, Question((32,), job=Job(360_000, 4)), LEARNED, once).targets
    rate, wall = target.numbers["images_per_s"], target.numbers["wall_s"]
    assert wall.value == pytest.approx(122.5)
    assert wall.low == pytest.approx(8 + 360_000 / rate.high, rel=1e-4)
    assert wall.high == pytest.approx(12 + 360_000 / rate.low, rel=1e-4)
    assert target.numbers["cost"].value == pytest.approx(122.5 * 32 / 3600)


def test_no_cost_without_the_ranks_of_a_node_and_no_time_that_is_paid_twice():
    (target,) = answers.answer(curve(ideal, (2, 4, 8)), Question((32,), job=Job(3200, 4)), LEARNED).targets
    assert target.numbers["wall_s"].value == pytest.approx(1)
    assert "cost" not in target.numbers


def test_a_curve_that_keeps_its_global_batch_is_asked_for_that():
    """t = 0.1 b + 0.05 log2 n with 32 images in all: 16 ranks take 0.2 + 0.2 s for them: 80 images/s."""
    of = curve([0.1 * 32 / n + 0.05 * math.log2(n) for n in (1, 2, 4, 8)], (1, 2, 4, 8), batch=[32, 16, 8, 4])
    result = answers.answer(of, Question((16,)), LEARNED)
    assert result.global_batch == 32
    (target,) = result.targets
    assert target.batch == 2
    assert target.numbers["images_per_s"].value == pytest.approx(80, rel=0.05)


def test_json_has_the_documented_form_and_no_number_that_is_not_known():
    result = answers.answer(curve(ideal, (1, 2, 4), ranks_per_node=2.0), Question((16, 256)), LEARNED)
    known, unknown = json.loads(documents.text(answers.as_json([result])))
    assert {"model", "ranks", "images_per_s", "supported", "why"} <= set(known)
    assert set(known["images_per_s"]) == {"value", "low", "high", "level", "n", "covers"}
    assert (known["model"], known["ranks"], known["nodes"], known["why"]) == ("resnet50", 16, 8, "")
    assert known["supported"] is True
    assert known["images_per_s"]["level"] == known["speedup"]["level"] == 0.9
    assert unknown["images_per_s"] == {"value": None, "low": None, "high": None, "level": None, "n": 3, "covers": ""}
    assert unknown["supported"] is False
    assert unknown["why"].startswith("6 doublings beyond 4 ranks")
    assert "speedup" not in unknown


def test_points_that_are_left_out_check_the_prediction():
    asked = Question((16, 32), up_to=8)
    at_16, at_32 = answers.answer(curve(lambda n: 0.02 if n == 16 else 0.01), asked, LEARNED).targets
    assert at_16.measured == pytest.approx(800)
    assert at_16.numbers["images_per_s"].value == pytest.approx(1600)
    assert math.isnan(at_32.measured)
    of = answers.answer(curve(ideal), asked, LEARNED)
    assert of.curve.largest == 8
    assert [row.measured for row in answers.as_json([of])] == [pytest.approx(1600), UNSET]


@pytest.mark.parametrize(
    ("ranks", "claimed", "outcome", "said"),
    [
        (64, Bounds(0, 1e6), "inside", "consistent"),
        (64, Bounds(low=6000), "undecided", "consistent"),  # the interval reaches below
        (64, Bounds(0, 6000), "undecided", "consistent"),
        (64, Bounds(low=8000), "outside", "not consistent"),
        (64, Bounds(0, 1000), "outside", "not consistent"),
        (64, Bounds(6300, 6500), "undecided", "consistent"),
        (512, Bounds(low=1), "undecided", "not decidable"),
    ],
)
def test_a_claim_is_held_against_the_interval(ranks, claimed, outcome, said):
    verdict, reason = judge_claim(curve(ideal), ranks, claimed, LEARNED)
    assert (verdict.outcome, claim_verdict(verdict)) == (outcome, said)
    assert f"for {ranks} ranks" in reason


def test_the_reason_has_the_numbers():
    _, reason = judge_claim(curve(ideal), 32, Bounds(4000, 5000), LEARNED)
    assert reason.startswith("for 32 ranks 3200 (")
    assert reason.endswith("is predicted from 5 points up to 16 ranks; claimed: at least 4000, at most 5000")


@pytest.mark.slow
def test_what_the_reports_predict_is_not_decidable_and_why():
    """Report 004: 22 s an epoch on 16 V100, of which 4 and 8 were measured. Report 002: almost linear to 256."""
    table = Study().published
    taught = calibration.published_curves(Study().published).in_general
    v100 = table[table["report"].eq("004") & table["gpu"].eq("V100") & table["kind"].eq("measured")]
    epochs = reading.timed(v100[v100["quantity"].eq("epoch_s")])
    assert epochs.ranks.tolist() == [4, 8]
    verdict, reason = judge_claim(epochs, 16, Bounds(0, 1 / 22), taught)
    assert verdict.why == "no interval"
    assert reason == "no prediction for 16 ranks: 2 numbers of ranks measured, at least 3 are needed"
    none = reading.timed(table[table["report"].eq("002")].iloc[:0])
    verdict, reason = judge_claim(none, 256, Bounds(low=0.9), taught)
    assert claim_verdict(verdict) == "not decidable"
    assert reason.endswith("no numbers of ranks measured, at least 3 are needed")


def found(step_s=lambda n: 0.01, targets=(32, 64), job=None, fixed_s=None, **known):
    return answers.answer(curve(step_s, **known), Question(targets, job=job), LEARNED, fixed_s)


def test_the_report_has_what_is_predicted_and_why_the_rest_is_not():
    output = answers.report([found(targets=(32, 512))], "Checked on paper.")
    assert "3,200" in output
    assert "Not predicted to 512: 5 doublings beyond 16 ranks, at most 4 can be carried. resnet50." in output
    assert "over the fewest\nranks of the curve, 1. Checked on paper." in output
    assert max(map(len, output.splitlines())) <= 100


def test_curves_of_one_reason_are_named_up_to_three():
    many = [found(targets=(64,), doubts=(Doubt("ranks shared cores"),)) for _ in range(5)]
    output = answers.report(many, "")
    assert output.count("ranks shared cores") == 1
    assert "and 2 more." in output


def test_what_may_bend_beyond_one_doubling_is_reported_and_what_it_is():
    assert "may saturate just beyond them" in answers.report([found(targets=(64,))], "").replace("\n", " ")
    assert "saturate" not in answers.report([found(targets=(32,))], "")
    assert "not for a bend right beyond the points" in answers.report([found(targets=(32,))], "").replace("\n", " ")
    assert "bend right beyond" not in answers.report([found(targets=(64,))], "").replace("\n", " ")


def test_wall_times_say_what_they_include_and_why_a_cost_is_missing():
    once = student(10.0, 0.5, 3, 5)
    output = answers.report([found(job=Job(1e6, 3), fixed_s=once)], "")
    assert "with a fixed cost of 10 s a job (make explain); no cost: ranks_per_node is not known" in " ".join(
        output.split()
    )
    assert "cost" in answers.table([found(job=Job(1e6, 3), ranks_per_node=4.0)])


def test_a_point_that_was_left_out_is_inside_or_outside():
    for step_s, word in ((lambda n: 0.01, "inside"), (lambda n: 0.02 if n == 16 else 0.01, "outside")):
        one = answers.answer(curve(step_s), Question((16,), up_to=8), LEARNED)
        assert f"({word})" in answers.table([one])
