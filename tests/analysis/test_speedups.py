import math

import pandas as pd
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
    result = curve([2, 2, 4, 4, 8], [0.2, 0.2, 0.36, 0.36, 0.72])
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
    [alone] = curve([1] * 6, base)
    assert (alone.rate.has_interval, alone.speedup.has_interval) == (True, False)  # 1 by definition


def test_without_a_common_repeat_a_speedup_is_the_ratio_of_the_rates():
    result = curve([1, 1, 2], [10, 10, 18], [("", 0, 0), ("", 0, 1), ("", 0, 2)])
    assert [(point.speedup.value, point.speedup.n) for point in result] == [(1, 2), (pytest.approx(1.8), 1)]
    assert not result[1].speedup.has_interval
    assert [point.efficiency.value for point in result] == pytest.approx([1, 0.9])
    assert all(math.isnan(point.efficiency.value) for point in curve([0, 1], [10, 18]))


def test_rates_are_those_of_rounds_or_of_all_images_in_a_time():
    columns = ["record", "series", "quantity", "value", "round", "repeat"]
    alone = [("c", "t", "images_per_s", 7.0, None, 2), ("c", "t", "images", 600.0, None, 2)]
    alone += [("c", "t", "wall_s", 100.0, None, 2), ("c", "t", "job_s", 120.0, None, 2)]
    alone += [("d", "t", "wall_s", 100.0, None, 3)]  # of a program, which has no images
    rounds = [("a", "s", "images_per_s", 10.0, 0, 0), ("a", "s", "images_per_s", 12.0, 1, 0)]
    rounds += [("b", "s", name, 9.0, None, 1) for name in ("images_per_s", "images_per_s_per_rank")]  # a single point
    local = pd.DataFrame(alone + rounds, columns=columns)

    def rates(*by):
        runs = speedups.rates(local, *by)
        return [*zip(runs["launch"], runs["turn"], runs["rate"], strict=True)]

    round_rates = [("", 2, 7.0), ("a", 0, 10.0), ("a", 1, 12.0)]
    assert rates() == round_rates
    assert {by: rates(by) for by in speedups.BY} == {
        "throughput": round_rates, "wall time": [("", 2, 6.0)], "job time": [("", 2, 5.0)],
    }  # fmt: skip
    assert speedups.by_record(local[::-1][:5], "value") == [[9, 9], [12, 10], [100]]
    assert len(speedups.without_single_points(local)) == 7
    assert len(speedups.without_single_points(local.drop(columns="round"))) == 9


def test_each_rate_is_paired_with_that_of_the_smallest_size_or_of_another_curve_in_its_turn():
    runs = points([2, 2, 2, 4, 4, 4], [10, 20, math.nan, 18, 30, 7])
    rows = speedups.paired(runs, "size")
    assert rows["rate"].tolist() == [10, 20, 18, 30, 7]
    assert rows["speedup"].tolist() == pytest.approx([1, 1, 1.8, 1.5, math.nan], nan_ok=True)
    assert rows["efficiency"].tolist() == pytest.approx([1, 1, 0.9, 0.75, math.nan], nan_ok=True)
    over_another = speedups.paired(runs[3:], "size", base=points([2, 2], [5, 10]))
    assert over_another["speedup"].tolist() == pytest.approx([3.6, 3.0, math.nan], nan_ok=True)
    for smallest, efficiencies in ((0, [math.nan, math.nan]), (1, [1, 0.9])):
        rows = speedups.paired(points([smallest, smallest + 1], [10, 18]), "size")
        assert rows["efficiency"].tolist() == pytest.approx(efficiencies, nan_ok=True)
    sides = runs[3:], runs[:3]
    assert speedups.paired_differences(*sides, "rate") == [[8], [10]]
    assert speedups.paired_ratios(*sides) == {("", 0, 0): 1.8, ("", 0, 1): 1.5}
    ratio, rate = speedups.ratio(*sides, 0.9), speedups.rate_of(runs[:3])
    assert (ratio.value, ratio.n, ratio.level) == (pytest.approx((1.8 * 1.5) ** 0.5), 2, 0.9)
    assert (rate.value, rate.n) == (pytest.approx(200**0.5), 2)


def test_the_base_of_a_control_is_its_launches_with_allreduce_and_that_of_an_arm_the_one_on_fewer_ranks():
    columns = ["launch", "round", "kind", "arms", "model", "ranks", "series"]
    rounds = [
        ("a", 0, "measured", "", "m", 1, "s"),
        ("a", 0, "measured", "", "m", 2, "s"),
        ("b", 0, "measured", "", "m", 1, "s"),
    ]
    runs = pd.DataFrame([*rounds, ("a", 0, "control", "", "m", 2, "c")], columns=columns)
    assert [*speedups.base_of(runs[3:], runs).index] == [0, 1]
    assert [*speedups.base_of(runs[1:2], runs).index] == [0, 2]
    single = [("", None, "measured", arms, model, ranks, f"{arms}{model}{ranks}") for arms, model, ranks in (
        ("x", "m", 1), ("x", "m", 4), ("y", "m", 1), ("x", "n", 1), ("x", "m", 2))]  # fmt: skip
    runs = pd.DataFrame(single, columns=columns)
    assert [*speedups.base_of(runs[4:], runs).index] == [0]
    assert speedups.base_of(runs[1:2], runs) is None  # two have fewer
    assert speedups.base_of(runs[:1], runs) is None


def test_the_rows_of_a_point_are_those_of_its_records_sizes_and_axis():
    rows = [("a", "s", 2, 8, 1.0), ("a", "s", 2, 8, None), ("a", "s", 2, 8, 2.0), ("a", "s", 1, 8, 1.0)]
    rows += [("a", "s", 2, 4, 1.0), ("a", "t", 2, 8, 1.0), ("b", "s", 2, 8, 1.0)]
    local = pd.DataFrame(rows, columns=["record", "series", "ranks", "batch_per_rank", "axis_value"])
    assert [*speedups.rows_of_point(local, local[:1]).index] == [0, 1]


def test_what_a_doubling_keeps_is_that_of_the_typical_rates():
    # 1, 2 and 4 ranks: exponents -1/2, 0 and 1/2 of the rates; of three rounds the medians are 10 and 28.8.
    turns = [("launch", 0, turn) for turn in range(3)]
    rates = [10.0, 9.0, 11.0, 17.0, 16.0, 18.0, 28.8, 27.0, 30.0]
    share = speedups.per_doubling(points([1] * 3 + [2] * 3 + [4] * 3, rates, turns * 3), "size")
    assert (share.value, share.n) == (pytest.approx(math.sqrt(28.8 / 10) / 2), 3)
