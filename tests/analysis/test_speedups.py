import math

import pytest

from analysis import speedups
from tests.helpers.studies import curve_in_rounds


def curve(sizes, rates, *pairs):
    return speedups.curve(speedups.points(sizes, rates, *pairs), "size")


def test_a_curve_worked_by_hand():
    result = curve([2, 2, 4, 4, 8], [20, 20, 36, 36, 72])
    assert result["size"].tolist() == [2, 4, 8]
    assert result["n"].tolist() == [2, 2, 1]
    assert result["speedup"].tolist() == [1, 1.8, 3.6]
    assert result["efficiency"].tolist() == pytest.approx([1, 0.9, 0.9])
    assert result["efficiency_low"].isna().all()
    assert curve([], []).empty
    with pytest.raises(ValueError, match="positive"):
        curve([1, 2], [1.0, 0.0])


def test_launches_of_other_models_show_how_far_launches_differ(results):
    # Four launches of two models have two degrees of freedom: Student's t of 4.303 instead of 12.706.
    curve_in_rounds(results.folder)
    curve_in_rounds(results.folder, "vgg16")
    runs = speedups.rates(results.table())
    runs = runs[runs["kind"].eq("measured")]
    resnet = runs[runs["model"].eq("resnet50")]
    spread = speedups.spread_between_launches(resnet, runs, "nodes")
    assert spread.degrees == 2
    low, high = speedups.curve(resnet, "nodes", spread=spread).set_index("size").loc[2, ["speedup_low", "speedup_high"]]
    half = 4.3027 * math.sqrt(0.00057731 / 2)
    assert [low, high] == pytest.approx([1.5774 * math.exp(-half), 1.5774 * math.exp(half)], abs=1e-3)


def test_speedups_of_launches_are_of_the_runs_that_took_turns():
    # The machine is a tenth slower at each repeat: ratios of means over other repeats would be wrong.
    base = [10 * 0.9**repeat for repeat in range(6)]
    ratios = (1.6, 1.7, 1.8, 1.9, 1.65, 1.75)
    result = curve([1] * 6 + [2] * 6, base + [rate * ratio for rate, ratio in zip(base, ratios, strict=True)])
    two = result.set_index("size").loc[2]
    assert two[["n", "speedup", "speedup_low", "speedup_high"]].tolist() == pytest.approx([6, 1.725, 1.6, 1.9])


def test_without_a_common_repeat_a_speedup_is_the_ratio_of_the_rates():
    result = curve([1, 2], [10, 18], [("", 0, 0), ("", 0, 1)])
    assert result["speedup"].tolist() == pytest.approx([1, 1.8])
    assert result["speedup_low"].isna().all()


def test_what_a_doubling_keeps_is_known_for_each_round():
    # ratios 1.2, 1.6 and 1.4 on twice the ranks
    pairs = [("launch", 0, turn) for turn in range(3)]
    runs = speedups.points([1, 1, 1, 2, 2, 2], [10, 5, 20, 12, 8, 28], pairs * 2)
    assert speedups.shares_per_doubling(runs, "size") == [pytest.approx([0.6, 0.8, 0.7])]
