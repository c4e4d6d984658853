import math

import pytest
from msgspec import UNSET

from analysis.predict import Obstacle, predicted_targets
from analysis.predict.predicted_targets import JobQuestion
from analysis.stats.student import student
from tests.helpers.scaling_curves import LEARNED, curve


def ideal(n):
    return 0.01  # 100 images/s a rank


def halved_at_16(n):
    return 0.02 if n == 16 else 0.01


def answer(to=(32,), step_s=ideal, fixed_s=None, images=None, price=None, up_to=math.inf, **settings):
    return predicted_targets.answer(
        curve(step_s, **settings), JobQuestion(to, None, images, price, up_to), LEARNED, fixed_s
    )


def report(*results):
    return " ".join(predicted_targets.report(results, "Checked on paper.").split())


def test_speedup_and_efficiency_are_over_the_fewest_ranks():
    """100 images/s a rank on 2, 4 and 8 ranks: 32 ranks are 3200 images/s, 16 times 2 ranks, efficiency 1."""
    target = answer(ranks=(2, 4, 8)).targets[0]
    rate, speedup, efficiency = target.images_per_s, target.speedup, target.efficiency
    assert (rate.value, speedup.value, efficiency.value) == pytest.approx((3200, 16, 1))
    assert efficiency.low == pytest.approx(rate.low / 3200)
    assert rate.low < 3200 < rate.high


def test_wall_time_and_cost_of_a_job_worked_by_hand():
    """360,000 images at 3200 images/s: 112.5 s, and 10 s (8 to 12) once; 8 nodes at 4 an hour: 122.5 x 32 / 3600."""
    fixed_s = student(10, 2 / 4.303, 2, 4)  # Student's t with 2 degrees: 4.303
    result = answer(fixed_s=fixed_s, images=360_000, price=4, ranks=(2, 4, 8), ranks_per_node=4.0)
    target = result.targets[0]
    rate, wall = target.images_per_s, target.wall_s
    ends = 8 + 360_000 / rate.high, 12 + 360_000 / rate.low
    assert (wall.value, wall.low, wall.high) == pytest.approx((122.5, *ends), rel=1e-4)
    assert target.cost.value == pytest.approx(122.5 * 32 / 3600)
    assert "cost" in predicted_targets.table([result])


def test_no_cost_without_the_ranks_of_a_node_and_a_job_without_its_fixed_cost():
    result = answer(images=3200, price=4, ranks=(2, 4, 8))
    assert result.targets[0].wall_s.value == pytest.approx(1)
    assert result.targets[0].cost is UNSET
    assert "without the fixed cost of a job" in report(result)
    with_cost = report(answer(fixed_s=student(10.0, 0.5, 3, 5), images=1e6, price=3))
    assert "with a fixed cost of 10 s a job (make explain); no cost: ranks_per_node is not known" in with_cost


def test_a_curve_that_keeps_its_global_batch_is_predicted_for_it():
    """32 images in all: 20, 32 and 50 images/s on 1, 2 and 4 ranks; 50^2 / 32 = 78.125 on 8."""
    step_s = [32 / 20, 32 / 32, 32 / 50]
    result = answer((8,), step_s, ranks=(1, 2, 4), batch=[32, 16, 8])
    assert result.targets[0].images_per_s.value == pytest.approx(78.125)


def test_only_points_of_a_global_batch_that_is_asked_for_are_used():
    """Batches of 8 and 4 on 1 and 2 ranks: with 8 in all, 10 and 16 images/s; 25.6 on 4."""
    several = curve([0.8, 0.4, 0.8, 0.5], ranks=(1, 1, 2, 2), batch=[8, 4, 8, 4])
    assert "several batches" in predicted_targets.answer(several, JobQuestion((4,)), LEARNED).targets[0].why
    eight, other = (
        predicted_targets.answer(several, JobQuestion((4,), batch), LEARNED).targets[0] for batch in (8, 64)
    )
    assert eight.images_per_s.value == pytest.approx(25.6)
    assert other.why == "no numbers of ranks measured, at least 2 are needed"


def test_points_beyond_the_limit_check_the_prediction():
    result = answer((16, 32), halved_at_16, up_to=8)
    at_16, at_32 = result.targets
    assert (at_16.measured, at_16.images_per_s.value) == pytest.approx((800, 1600))
    assert at_32.measured is UNSET
    assert "(outside)" in predicted_targets.table([result])
    assert "(inside)" in predicted_targets.table([answer((16, 32), up_to=8)])


def test_the_report_has_what_is_predicted_and_why_the_rest_is_not():
    result = answer((32, 512))
    lines = predicted_targets.report([result], "Checked on paper.")
    assert "3200" in lines
    assert "Not predicted to 512: 5 doublings beyond 16 ranks, at most 4 can be carried. resnet50." in lines
    assert "over the fewest ranks of the curve, 1. Checked on paper." in " ".join(lines.split())
    assert (result.targets[1].supported, result.targets[1].speedup) == (False, UNSET)
    output = report(*[answer(obstacles=(Obstacle("ranks shared cores"),))] * 5)
    assert output.count("ranks shared cores") == 1
    assert "and 2 more." in output


def test_rates_of_several_units_have_them_in_each_row():
    assert "images/s" in report(answer()).split("Checked")[0]
    rows = report(answer(unit="steps/s"), answer(unit="MiB/s"))
    assert "3200 steps/s" in rows
    assert "3200 MiB/s" in rows
