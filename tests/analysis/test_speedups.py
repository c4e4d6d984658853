import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import speedups
from tests.helpers.own_studies import curve_in_rounds

positive = st.floats(1e-3, 1e6)


def curve(sizes, rates):
    return speedups.curve(speedups.points(sizes, rates), "size")


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_a_curve_without_a_rate_is_refused(bad):
    with pytest.raises(ValueError, match="positive"):
        curve([1, 2], [1.0, bad])


def test_a_curve_worked_by_hand():
    c = curve([1, 1, 2, 2, 4], [10, 10, 18, 18, 36]).set_index("size")
    assert c["n"].tolist() == [2, 2, 1]
    assert c["speedup"].tolist() == [1, 1.8, 3.6]
    assert c["efficiency"].tolist() == pytest.approx([1, 0.9, 0.9])
    assert math.isnan(c.loc[2, "efficiency_low"])


def test_a_curve_that_starts_at_two_ranks_is_measured_against_two():
    c = curve([2, 8], [20, 60])
    assert c["speedup"].tolist() == [1, 3]
    assert c["efficiency"].tolist() == [1, 0.75]


def test_an_empty_curve_is_an_empty_table():
    assert curve([], []).empty


@settings(max_examples=10)
@given(st.lists(positive, min_size=2, max_size=6), st.floats(1e-3, 1e3))
def test_scaling_a_curve_by_a_constant_leaves_its_efficiency(rates, factor):
    ranks = [2**i for i in range(len(rates))]
    before = curve(ranks, rates)["efficiency"]
    after = curve(ranks, [rate * factor for rate in rates])["efficiency"]
    assert after.tolist() == pytest.approx(before.tolist())


@settings(max_examples=10)
@given(positive, st.lists(st.sampled_from([2, 4, 8, 16, 256]), min_size=1, unique=True), st.integers(1, 3))
def test_ideal_input_gives_exactly_one(rate, more, repeats):
    ranks = [1, *more] * repeats
    c = curve(ranks, [rate * r for r in ranks])
    assert c["efficiency"].tolist() == pytest.approx([1.0] * (1 + len(more)), rel=1e-12)


def test_a_curve_in_rounds_worked_by_hand(results):
    curve_in_rounds(results.folder)
    runs = speedups.rates(results.table())
    measured = runs[runs["kind"].eq("measured")]
    c = speedups.curve(measured, "nodes").set_index("size")
    assert c[["n", "launches"]].values.tolist() == [[12, 2], [12, 2]]
    # the single launches, of which that of two nodes has 25.6 images/s, do not count
    assert c.loc[1, "rate"] == pytest.approx(8 / (0.5 * 1.25))  # 8 images over the mean step
    assert (c.loc[1, "speedup"], math.isnan(c.loc[1, "speedup_low"])) == (1, True)
    two = c.loc[2, ["speedup", "speedup_low", "speedup_high"]].tolist()
    # The medians of the two launches are 1.56 and 1.595, and differ by less than their rounds explain: the ratios are
    # 0.0375 from them on average, on a logarithmic scale, so that the variance of a median is (0.0375 x sqrt(pi / 2))^2
    # x pi / 12 = 0.000577, and half of the interval 12.7 x sqrt(0.000577 / 2), with one degree of freedom.
    assert two == pytest.approx([1.5774, 1.2711, 1.9575], abs=1e-4)
    assert c.loc[2, ["efficiency", "efficiency_low", "efficiency_high"]].tolist() == pytest.approx([x / 2 for x in two])


def test_launches_of_other_models_tell_how_far_launches_differ(results):
    # Four launches of two models have two degrees of freedom: Student's t of 4.303 instead of 12.706.
    curve_in_rounds(results.folder)
    curve_in_rounds(results.folder, "vgg16")
    runs = speedups.rates(results.table())
    runs = runs[runs["kind"].eq("measured")]
    one = runs[runs["model"].eq("resnet50")]
    spread = speedups.spread_between_launches(one, runs, "nodes")
    assert spread.degrees == 2
    low, high = speedups.curve(one, "nodes", spread=spread).set_index("size").loc[2, ["speedup_low", "speedup_high"]]
    half = 4.3027 * math.sqrt(0.00057731 / 2)
    assert [low, high] == pytest.approx([1.5774 * math.exp(-half), 1.5774 * math.exp(half)], abs=1e-3)


def test_the_control_of_a_curve_in_rounds_is_over_its_smallest_point(results):
    curve_in_rounds(results.folder)
    runs = speedups.rates(results.table())
    control = runs[runs["kind"].eq("control")]
    c = speedups.curve(control, "nodes", speedups.base_of(control, runs))
    assert c[["size", "speedup", "efficiency"]].values.tolist() == [pytest.approx([2, 1.9, 0.95])]
    assert speedups.base_of(runs[runs["kind"].eq("measured")], runs) is None


def test_speedups_of_launches_are_of_the_runs_that_took_turns():
    # The machine is a tenth slower at each repeat: ratios of means of other repeats would tell nothing.
    base = [10 * 0.9**repeat for repeat in range(6)]
    ratios = (1.6, 1.7, 1.8, 1.9, 1.65, 1.75)
    c = curve([1] * 6 + [2] * 6, base + [rate * ratio for rate, ratio in zip(base, ratios, strict=True)])
    two = c.set_index("size").loc[2]
    assert two[["speedup", "speedup_low", "speedup_high"]].tolist() == pytest.approx([1.725, 1.6, 1.9])
    assert two["n"] == 6


def test_without_a_common_repeat_a_speedup_is_the_ratio_of_the_rates():
    pairs = [("", 0, 0), ("", 0, 1)]
    c = speedups.curve(speedups.points([1, 2], [10, 18], pairs), "size")
    assert c["speedup"].tolist() == pytest.approx([1, 1.8])
    assert c["speedup_low"].isna().all()


def test_what_a_doubling_keeps_is_known_for_each_round():
    # ratios 1.2, 1.6 and 1.4 on twice the ranks
    pairs = [("launch", 0, turn) for turn in range(3)]
    runs = speedups.points([1, 1, 1, 2, 2, 2], [10, 5, 20, 12, 8, 28], pairs * 2)
    assert speedups.shares_per_doubling(runs, "size") == [pytest.approx([0.6, 0.8, 0.7])]
