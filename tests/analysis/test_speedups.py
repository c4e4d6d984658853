import math

import pytest

from analysis import speedups


def points(sizes, rates, turns=()):
    """Runs of launches, seeds and turns."""
    runs = speedups.points(sizes, rates)
    if turns:
        runs[["launch", "seed", "turn"]] = turns
    return runs


def curve(sizes, rates, *turns):
    return speedups.curve(points(sizes, rates, *turns), "size")


def test_a_curve_worked_by_hand():
    result = curve([2, 2, 4, 4, 8], [20, 20, 36, 36, 72])
    assert [(point.size, point.n) for point in result] == [(2, 2), (4, 2), (8, 1)]
    assert [point.speedup.value for point in result] == pytest.approx([1, 1.8, 3.6])
    assert [point.efficiency.value for point in result] == pytest.approx([1, 0.9, 0.9])
    assert not any(point.efficiency.has_interval for point in result)
    assert curve([], []) == []
    with pytest.raises(ValueError, match="positive"):
        curve([1, 2], [1.0, 0.0])


def test_speedups_of_launches_are_of_the_runs_that_took_turns():
    # The machine is a tenth slower at each repeat, and the first launch of the smaller size failed.
    base = [10 * 0.9**repeat for repeat in range(6)]
    ratios = (1.6, 1.7, 1.8, 1.9, 1.65, 1.75)
    rates = [rate * ratio for rate, ratio in zip(base, ratios, strict=True)]
    turns = [("", 0, repeat) for repeat in range(6)]
    _, two = curve([1] * 5 + [2] * 6, base[1:] + rates, [*turns[1:], *turns])
    assert two.n == 6
    assert two.speedup.value == pytest.approx(1.75, rel=0.02)
    assert not two.speedup.has_interval  # of five pairs


def test_without_a_common_repeat_a_speedup_is_the_ratio_of_the_rates():
    result = curve([1, 2], [10, 18], [("", 0, 0), ("", 0, 1)])
    assert [point.speedup.value for point in result] == pytest.approx([1, 1.8])
    assert not result[1].speedup.has_interval


def test_what_a_doubling_keeps_is_that_of_the_typical_rates():
    # 1, 2 and 4 ranks: exponents -1/2, 0 and 1/2 of the rates; of three rounds the medians are 10 and 28.8.
    turns = [("launch", 0, turn) for turn in range(3)]
    rates = [10.0, 9.0, 11.0, 17.0, 16.0, 18.0, 28.8, 27.0, 30.0]
    share = speedups.per_doubling(points([1] * 3 + [2] * 3 + [4] * 3, rates, turns * 3), "size")
    assert (share.value, share.n) == (pytest.approx(math.sqrt(28.8 / 10) / 2), 3)
