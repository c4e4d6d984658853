import math

import numpy as np
import pytest

from analysis.predict import calibration
from analysis.predict.points import Doubt
from analysis.predict.prediction import predict
from analysis.study import Study
from tests.helpers.scaling_curves import curve


def logarithmic(n):
    return 1 + 0.05 * math.log2(n)


def machine(name, jump=1.0, curves=1):
    """Curves of one machine, of 1 to 8 ranks; on 8 ranks a step takes `jump` times as long as the points below say."""
    return [curve(lambda n: logarithmic(n) * (jump if n == 8 else 1), (1, 2, 4, 8), source=name) for _ in range(curves)]


@pytest.fixture
def published():
    return calibration.published_curves(Study().published).curves


def test_a_curve_is_cut_after_its_third_point_and_each_one_after():
    (of,) = [curve(logarithmic)]
    found = calibration.cuts([of], 0.015)
    assert [(cut.lower.largest, cut.beyond.ranks.tolist()) for cut in found] == [(4, [8, 16]), (8, [16])]
    assert found[0].measured_s == pytest.approx([1.15, 1.2])


def test_what_the_points_below_cannot_carry_is_not_counted():
    assert calibration.cuts([curve(logarithmic, doubts=(Doubt("x"),))], 0.015) == []
    across = curve(logarithmic, (1, 2, 4, 8, 16), ranks_per_node=4.0)
    assert [cut.lower.largest for cut in calibration.cuts([across], 0.015)] == [8]  # 4 and below are one node


def test_perfect_curves_teach_that_nothing_grows():
    taught = calibration.learn([*machine("a"), *machine("b")])
    assert (taught.faster, taught.slower) == (0, 0)
    assert taught.weights["power law"] < 0.05  # all others have the logarithm that these curves are made of
    assert taught.weights["step"] == pytest.approx(taught.weights["logarithm"])
    assert sum(taught.weights.values()) == pytest.approx(1)
    assert taught.noise == 0.001  # what is printed is not known any better


def test_the_growth_is_what_holds_nine_machines_of_ten_to_the_slower_side():
    """Nine machines are 20 % slower on 8 ranks than the points below say, one is twice as slow: it may be missed."""
    taught = calibration.learn([of for i in range(9) for of in machine(f"m{i}", 1.2)] + machine("far", 2.0))
    assert taught.faster == 0
    assert taught.slower == pytest.approx(math.log(1.2) / 1.645, rel=0.02)


def test_a_machine_counts_once_however_many_curves_it_has():
    one = calibration.learn([*machine("a", 1.1), *machine("b", 1.3)])
    many = calibration.learn([*machine("a", 1.1, curves=5), *machine("b", 1.3)])
    assert many.slower == pytest.approx(one.slower)
    assert many.weights == pytest.approx(one.weights)


def test_no_curve_of_four_points_teaches_nothing():
    with pytest.raises(ValueError, match="beyond its first three"):
        calibration.learn([curve(logarithmic, (1, 2, 4))])


def test_a_machine_is_predicted_with_what_the_others_taught():
    far, near = machine("far", 1.4), machine("near", 1.0)
    taught = calibration.by_source([*far, *near], calibration.learn([*far, *near]))
    assert taught["far"] == calibration.learn(near)
    checks = calibration.checks([*far, *near], taught)
    of_far, of_near = sorted(checks, key=lambda check: check.cut.curve.source)
    assert (of_far.held.tolist(), of_near.held.tolist()) == ([False], [True])
    assert of_far.error[0] == pytest.approx(0.4, abs=0.02)
    assert of_far.measured[0] == pytest.approx(8 / (1.15 * 1.4))


def test_what_the_published_curves_teach(published):
    """The error grows by a tenth with each doubling, and only to the slower side; points are within 1.6 %."""
    taught = calibration.published_curves(Study().published).in_general
    assert taught == calibration.learn(published)
    assert taught.slower == pytest.approx(0.099, abs=0.002)
    assert taught.faster == 0
    assert taught.noise == pytest.approx(0.0156, abs=0.0002)
    assert {name: round(weight, 2) for name, weight in taught.weights.items()} == {
        "step": 0.41,
        "logarithm": 0.25,
        "power law": 0.24,
        "server": 0.10,
    }


def test_with_it_the_intervals_hold_nine_of_ten_as_they_are_counted(published):
    """Again from the definition: each machine, of it each curve, of it each prediction counts the same."""
    taught = calibration.published_curves(Study().published).in_general
    by_curve, source = {}, {}
    for cut in calibration.cuts(published, taught.noise):
        found = predict(cut.lower, cut.beyond, taught)
        rate = cut.beyond.ranks * cut.beyond.batch / cut.measured_s
        by_curve.setdefault(id(cut.curve), []).extend((found.low <= rate) & (rate <= found.high))
        source[id(cut.curve)] = cut.curve.source
    by_source = {}
    for key, held in by_curve.items():
        by_source.setdefault(source[key], []).append(np.mean(held))
    assert set(by_source) == {"BSC", "dgx-1", "ec2"}
    assert 0.90 <= np.mean([np.mean(shares) for shares in by_source.values()]) < 0.97


def test_a_prediction_never_sees_its_own_machine(published):
    """Made twice as slow on their largest point, the curves of EC2 change what others are told, not what they are."""
    slower = [
        curve(of.step_s * np.where(of.ranks == of.largest, 2, 1), of.ranks, source=of.source, doubts=of.doubts,
              ranks_per_node=of.ranks_per_node, batch=of.batch) if of.source == "ec2" else of
        for of in published
    ]  # fmt: skip
    without = [[of for of in curves if of.source != "ec2"] for curves in (published, slower)]
    assert (
        calibration.learn(without[0])
        == calibration.learn(without[1])
        == calibration.published_curves(Study().published).by_source["ec2"]
    )
    assert calibration.learn(slower) != calibration.published_curves(Study().published).in_general


def test_the_bars_are_met_on_the_published_curves():
    """The largest point within 3.5 % in the median, and 85 % of the points held, each by other machines' curves."""
    checks = calibration.published_curves(Study().published).checks
    found = calibration.accuracy(checks)
    assert (found.curves, found.machines, found.points) == (7, 2, 25)
    assert found.largest_error <= 0.035
    assert found.held / found.points >= 0.85
    for check in checks:
        base = check.cut.lower.base
        ideal = check.cut.lower.images_per_s[base] / check.cut.lower.ranks[base] * check.cut.beyond.ranks
        assert ((check.predicted.images_per_s > 0) & (check.predicted.images_per_s <= ideal + 1e-9)).all()
