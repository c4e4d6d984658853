import math

from analysis.predict import answers, calibration, text
from analysis.predict.answers import Job, Question
from analysis.predict.next_points import NextPoint
from analysis.predict.points import Doubt
from analysis.stats.student import student
from analysis.study import Study
from tests.helpers.scaling_curves import LEARNED, curve


def found(step_s=lambda n: 0.01, targets=(32, 64), job=None, fixed_s=None, **known):
    return answers.answer(curve(step_s, **known), Question(targets, job=job), LEARNED, fixed_s)


def test_the_report_has_what_is_predicted_and_why_the_rest_is_not():
    output = text.report([found(targets=(32, 512))], "Checked on paper.")
    assert "3,200" in output
    assert "Not predicted to 512: 5 doublings beyond 16 ranks, at most 4 can be carried. resnet50." in output
    assert "over the fewest\nranks of the curve, 1. Checked on paper." in output
    assert max(map(len, output.splitlines())) <= 100


def test_curves_of_one_reason_are_named_up_to_three():
    many = [found(targets=(64,), doubts=(Doubt("ranks shared cores"),)) for _ in range(5)]
    output = text.report(many, "")
    assert output.count("ranks shared cores") == 1
    assert "and 2 more." in output


def test_what_may_bend_beyond_one_doubling_is_reported_and_what_it_is():
    assert "may saturate just beyond them" in text.report([found(targets=(64,))], "").replace("\n", " ")
    assert "saturate" not in text.report([found(targets=(32,))], "")
    assert "not for a bend right beyond the points" in text.report([found(targets=(32,))], "").replace("\n", " ")
    assert "bend right beyond" not in text.report([found(targets=(64,))], "").replace("\n", " ")


def test_wall_times_say_what_they_include_and_why_a_cost_is_missing():
    once = student(10.0, 0.5, 3, 5)
    output = text.report([found(job=Job(1e6, 3), fixed_s=once)], "")
    assert "with a fixed cost of 10 s a job (make explain); no cost: ranks_per_node is not known" in " ".join(
        output.split()
    )
    assert "cost" in text.table([found(job=Job(1e6, 3), ranks_per_node=4.0)])


def test_what_to_measure_next_in_words():
    points = [NextPoint(32, 8, 1.25, 2.0, 1.5), NextPoint(64, 16, math.nan, math.nan, 1.2)]
    output = text.next_points(curve(lambda n: 1.0), points, "make weak-scaling NODES=16")
    joined = " ".join(output.split())
    assert (
        "32 ranks (8 nodes, about 1.2 node hours), which narrows the interval from a factor of 2.00 to 1.50" in joined
    )
    assert "64 ranks (16 nodes), with which a target is supported, within a factor of 1.20" in joined
    assert output.endswith("\n    make weak-scaling NODES=16")


def test_a_point_that_was_left_out_is_inside_or_outside():
    for step_s, word in ((lambda n: 0.01, "inside"), (lambda n: 0.02 if n == 16 else 0.01, "outside")):
        one = answers.answer(curve(step_s), Question((16,), up_to=8), LEARNED)
        assert f"({word})" in text.table([one])


def test_the_sentence_says_how_good_and_how_sure():
    checks = calibration.published_curves(Study().published).checks
    output = text.accuracy_sentence(calibration.accuracy(checks))
    assert output.startswith("Checked on the 31 published curves with points above 8 ranks")
    assert "on 6 machines." in output
