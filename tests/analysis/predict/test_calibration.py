import math

import pytest

from analysis.predict import Obstacle, calibration, reading
from analysis.predict.calibration import PublishedCurves, held_out
from analysis.study import Study
from tests.helpers.scaling_curves import curve, logarithmic


def machine(name, jump=1.0, curves=1):
    """Curves of one machine on 1, 2 and 4 ranks; on 4 a step takes `jump` times as long as the last doubling gives."""
    return [curve([1, 1, jump], (1, 2, 4), source=name) for _ in range(curves)]


def learn(*curves):
    return calibration.learn(held_out(curves))


def test_a_curve_is_cut_after_its_second_point_and_after_each_later_one():
    points = held_out([curve(logarithmic, (1, 2, 4, 8))])
    assert [lower.largest for lower in points["lower"]] == [2, 2, 4]
    assert (points["ranks"].tolist(), points["is_next"].tolist()) == ([4, 8, 8], [False, False, True])
    assert points["measured"].tolist() == pytest.approx([4 / 1.1, 8 / 1.15, 8 / 1.15])


def test_what_the_points_below_cannot_carry_is_not_counted():
    assert held_out([curve(logarithmic, obstacles=(Obstacle("x"),))]).empty
    across = held_out([curve(logarithmic, (1, 2, 4, 8, 16), ranks_per_node=4.0)])
    cuts = [lower.largest for lower in across["lower"]]
    assert (cuts, across["ranks"].tolist()) == ([2, 8], [4, 16])  # 2 -> 4 is within a node


def test_the_error_is_what_holds_nine_networks_of_ten():
    """On 4 ranks 17 of 20 networks are 5 % slower than the last doubling gives, 1 is 9 %, 2 are twice as slow."""
    jumps = [1.05] * 17 + [1.09] + [2.0] * 2
    assert learn(*(curve([1, 1, jump], (1, 2, 4), source=f"m{i}") for i, jump in enumerate(jumps))) == pytest.approx(
        math.log(1.09)
    )


def test_an_error_beyond_one_doubling_counts_divided_by_the_doublings():
    """From 1 and 2 ranks, 4 and 8 follow exactly and 16 by half: ln 2 over three doublings."""
    assert learn(curve([1, 1, 2], (1, 2, 16), source="a")) == pytest.approx(math.log(2) / 3)


def test_a_machine_counts_once_however_many_curves_it_has():
    single = learn(*machine("a", 1.1), *machine("b", 1.3))
    many = learn(*machine("a", 1.1, curves=50), *machine("b", 1.3))
    assert many == pytest.approx(single) == pytest.approx(math.log(1.3))


def test_no_curve_of_three_points_teaches_nothing():
    with pytest.raises(ValueError, match="beyond its first 2"):
        learn(curve(logarithmic, (1, 2)))


def test_a_machine_is_predicted_with_what_the_others_taught_and_the_worst_is_named():
    far, near = machine("far", 1.4), machine("near", 1.0)
    published = PublishedCurves(far, near)
    assert published.learned_for(far[0]) == learn(*near)
    assert published.checks["held"].tolist() == [False, True]
    sentence = calibration.unknown_network_sentence(published.checks)
    assert "held 1 of 2 points at the next doubling; 0 of 1 on the worst (far)" in sentence


def test_the_public_curves_are_held_by_what_the_other_networks_teach():
    public = calibration.published_curves(Study().published)
    assert calibration.learn(public.held_out) == pytest.approx(0.176, abs=0.0005)
    assert len(public.others) == 24  # only teach
    assert (public.checks["held"].sum(), len(public.checks)) == (207, 216)


def test_the_24_curves_of_azure():
    others = reading.azure()
    assert {tuple(other.ranks) for other in others} == {(1, 2, 3, 4, 8, 16, 32)}
    assert {other.source for other in others} == {"Azure Intel MPI over InfiniBand", "Azure NCCL over TCP"}
    (p100,) = [other for other in others if other.model == "resnet50" and other.name == "Azure P100 NCCL over TCP"]
    assert p100.images_per_s[[0, 3]] == pytest.approx([230.2, 855.8])
