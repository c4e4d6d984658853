import functools
import math

import numpy as np
import pandas as pd
import pytest

from analysis import TableError, explain
from analysis.explain import explanation_text, line, wall_time_runs
from tests.helpers.wall_time_curves import curve

# vgg_19 in the table behind report 000's plots, by hand: of 101.92 s on 2 GPUs, 250 steps of 64 images at
# 169.37 images/s take 94.47 s; 7.45 s are left. On 4, 8 and 16 GPUs 6.58, 6.89 and 6.28 s; on 32, 13.34 s.
VGG19_WALL_S = [193.45, 101.92, 55.03, 30.83, 18.32, 19.2]
VGG19_SPEEDS = [170.24, 169.37, 165.11, 165.72, 164.77, 163.91]
VGG19 = curve([1, 2, 4, 8, 16, 32], [500, 250, 125, 62, 31, 15], VGG19_WALL_S, speed=VGG19_SPEEDS)
NOISE = np.array([0.2, -0.3, 0.1, 0.25, -0.2, -0.1, 0.15, -0.25, 0.05])


@functools.cache
def vgg19():
    return explain.explain(VGG19)


def sentences(result):
    return " ".join(explanation_text.sentences(result))


def growing(share, fixed_s=12.0, noise=0.005):
    """Fixed work on 1 to 32 ranks whose time per image grows by `share` at each doubling, with and without speeds."""
    ranks = np.array([1, 2, 4, 8, 16, 32])
    steps, per_image_s = 512 // ranks, (1 + share * np.log2(ranks)) / 170
    wall_s = (fixed_s + steps * 64 * per_image_s) * (1 + noise * NOISE[:6])
    return curve(ranks, steps, wall_s, speed=1 / per_image_s), curve(ranks, steps, wall_s)


def test_the_fixed_overhead_of_vgg19_of_report_000_is_what_its_measured_speeds_leave():
    result, points = vgg19(), vgg19().points.set_index("ranks")
    assert result.model is line.SPEEDS
    # The mean of 7.45, 6.58, 6.89 and 6.28 s, to which the one of 5.48 s of a run of 193 s adds little.
    assert result.fixed_s.low < 6.28 < 6.8 < result.fixed_s.high < 8
    # 500 steps are shared out: whether it is paid once, or for each step and rank, is not decidable.
    assert (result.has_cost_beyond_steps, result.has_fixed_cost) == (True, None)
    assert points["beyond_speed_s"][[2, 32]].tolist() == pytest.approx([7.45, 13.34], abs=0.01)
    at_16 = points.loc[16]
    assert at_16["speedup_throughput"] == pytest.approx(16 * 164.77 / 170.24)  # 15.49
    # 16 x 31 steps against 500: the work is not quite equal.
    assert at_16["speedup_wall_time"] == pytest.approx(193.45 / 18.32 * 496 / 500)  # 10.48
    assert at_16["speedup_without_fixed_low"] < 15.49 < at_16["speedup_without_fixed_high"]
    # (19.2 - 6.6) s in steps of 64 / 163.91 s
    assert result.misfits[["ranks", "steps_that_fit"]].values.tolist() == [[32, pytest.approx(32.3, abs=0.3)]]


def test_where_the_time_per_image_grows_the_measured_speeds_give_the_cost_beyond_the_steps():
    result = explain.explain(growing(0.15)[0])
    assert result.fixed_s.contains(12)
    assert result.fixed_s.high - result.fixed_s.low < 2
    assert result.points["speedup_without_fixed"].iloc[-1] == pytest.approx(32 / 1.75, rel=0.02)


@pytest.mark.parametrize("fixed_s", [12.0, 0.0])
def test_one_work_at_each_number_of_ranks_is_not_decidable_and_the_run_that_decides_is_named(fixed_s):
    """An eighth of the 16 steps on 32 ranks; what is not fixed recurs: contention of 12 s, or of 24 s, at 512 steps."""
    ranks = np.array([1, 2, 4, 8, 16, 32])
    one_work = curve(ranks, 512 // ranks, (fixed_s + 24 + 192 / ranks) * (1 + 0.005 * NOISE[:6]))
    result = explain.explain(one_work)
    decider = result.decider
    assert result.has_fixed_cost is None
    assert (decider.runs, decider.ranks, decider.steps_per_rank) == (4, 32, 2)
    assert decider.if_recurring_s == pytest.approx(one_work["wall_s"].iloc[-1] / 8)
    more = curve([32] * 4, [2] * 4, fixed_s + (24 + 192 / 32) / 8 * (1 + 0.005 * NOISE[5:]))
    decided = explain.explain(pd.concat([one_work, more], ignore_index=True))
    assert decided.has_fixed_cost is (fixed_s > 0)
    assert decided.fixed_s.contains(fixed_s)


def test_few_steps_are_decided_by_a_longer_run_and_noisy_runs_by_more_of_them():
    ranks = np.array([1, 2, 4, 8])
    decider = explain.explain(curve(ranks, 32 // ranks, (12 + 192 / ranks) * (1 + 0.005 * NOISE[:4]))).decider
    assert (decider.ranks, decider.steps_per_rank) == (8, 16)
    exact = growing(0.0, fixed_s=0.0, noise=0.0)[1]
    noisy = pd.concat([exact.assign(wall_s=factor * exact["wall_s"]) for factor in (0.9, 1.1)])
    assert 4 < explain.explain(noisy).decider.runs <= 9


@pytest.mark.parametrize(("late_s", "deviation_s"), [(10.0, 0.0), (0.0, 0.6)], ids=["a late run", "noise of seconds"])
def test_short_runs_decide_nothing_wrong_if_a_longer_run_was_late_or_runs_scatter_by_seconds(late_s, deviation_s):
    """12 s or nothing, and 64 x 16 / 170 = 6.02 s: a step of the late run seems to take 0.99 s instead of 0.38 s."""
    one_work = growing(0.0, fixed_s=12.0 if late_s else 0.0)[1]
    one_work.loc[5, "wall_s"] += late_s
    short_s = (12.0 if late_s else 0.0) + 2 * 64 / 170 + deviation_s * np.array([1.0, -0.1, 0.9, 0.6])
    result = explain.explain(pd.concat([one_work, curve([32] * 4, [2] * 4, short_s)], ignore_index=True))
    assert result.fixed_s.contains(12.0 if late_s else 0.0)


def test_a_run_of_a_few_steps_is_not_the_shortest_time_and_has_no_speedup_in_the_text():
    """The largest work on 32 ranks is that of 16 steps, of 18 s: what would matter is 10 % of it."""
    one_work = growing(0.0)[0]
    probed = pd.concat([one_work, curve([32], [2], [12 + 2 * 64 / 170], speed=170.0)], ignore_index=True)
    result = explain.explain(probed)
    assert result.shortest_s == pytest.approx(one_work["wall_s"].iloc[-1])
    by_time = one_work["wall_s"].iloc[0] / one_work["wall_s"].iloc[-1]
    assert f"On 32 ranks: 32.0x by speed, {by_time:.1f}x by wall time" in sentences(result)


def test_no_only_if_the_interval_excludes_what_would_matter():
    """10 % of 6.4 s: 0.64 s."""
    ranks, steps = np.repeat([1, 2, 4], 3), np.tile([100, 200, 400], 3)
    wall_s = steps * 64 * 0.001 * (1 + 0.02 * NOISE)
    assert explain.explain(curve(ranks, steps, wall_s)).has_fixed_cost is False
    assert explain.explain(curve(ranks, steps, steps * 64 * 0.001 * (1 + 0.3 * NOISE))).has_fixed_cost is None
    below = explain.explain(curve(ranks, steps, wall_s - 2))
    assert below.has_fixed_cost is None
    assert "below zero" in sentences(below)


def test_no_cost_is_paid_once_if_measured_speeds_leave_none():
    ranks = np.array([1, 2, 4, 8])
    wall_s = 512 / ranks * 64 / 100 * (1 + 0.003 * NOISE[:4])
    result = explain.explain(curve(ranks, 512 // ranks, wall_s, speed=100.0))
    assert (result.has_cost_beyond_steps, result.has_fixed_cost) == (False, False)


def test_speeds_that_are_all_some_per_cent_off_only_show_how_they_differ():
    table, _ = growing(0.1, noise=0.002)
    speeds = table["images_per_s_per_rank"]
    result = explain.explain(table.assign(images_per_s_per_rank=speeds * 1.06))
    assert result.model is line.FACTOR
    assert result.fixed_s.contains(12)
    assert result.images_per_s_per_rank.value == pytest.approx(speeds.median(), rel=0.01)


def test_equal_work_can_be_split_where_speeds_were_measured():
    result = explain.explain(curve([1, 2, 4], 100, [74.0, 84.1, 93.9], speed=[100.0, 6400 / 74, 6400 / 84]))
    assert result.fixed_s.value == pytest.approx(10, abs=0.1)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        (curve([1, 2, 4], 100, [10.0, 11.0, 12.0]), r"same work per rank \(6400 images\)"),
        (curve([1, 2], [100, 50], [10.0, 6.0]), "2 runs"),
        (curve([1, 2, 4], [100, 50, 25], [5.0, 6.0, 7.0]), "does not grow"),
    ],
    ids=["equal work", "two runs", "less time for more work"],
)
def test_a_curve_that_cannot_be_split_says_why(table, reason):
    with pytest.raises(TableError, match=reason):
        explain.explain(table)


def test_several_works_at_one_number_of_ranks_need_no_assumption():
    # 12 s once; an image takes 0.010, 0.013 and 0.012 s on 1, 2 and 4 ranks: no growth that doublings share.
    ranks, steps = np.repeat([1, 2, 4], 3), np.tile([50, 100, 200], 3)
    table = curve(ranks, steps, 12 + steps * 64 * np.repeat([0.010, 0.013, 0.012], 3) + NOISE / 10)
    result = explain.explain(table)
    assert result.model is line.OWN
    assert result.has_fixed_cost is True
    assert result.fixed_s.contains(12)
    assert result.images_per_s_per_rank.value == pytest.approx(100, rel=0.01)
    assert result.points["ranks"].tolist() == ranks.tolist()


def test_batches_that_vary_are_multiplied_run_by_run_and_repeats_are_runs_of_one_point():
    # 2 s once and 0.01 s an image: 100 x 10 and 10 x 100 images on 2 ranks, 1000 each; mean x mean would be 3025.
    table = curve([1, 2, 2, 4], [100, 100, 10, 20], [52.0, 12.0, 12.0, 4.0], batch=[50, 10, 100, 10])
    result = explain.explain(table)
    assert result.points["images_per_rank"].tolist() == [5000, 1000, 1000, 200]
    assert result.fixed_s.value == pytest.approx(2)
    table = pd.concat([curve([1, 2, 4], [100, 50, 20], [14.0 + o, 9.0 + o, 6.0 + o], batch=10) for o in (0, 2)])
    result = explain.explain(table)
    assert result.points[["runs", "wall_s"]].to_numpy().tolist() == [[2, 15], [2, 10], [2, 7]]
    assert result.fixed_s.n == 6
    assert result.fixed_s.contains(5)


@pytest.mark.parametrize("wrong", [1, 32])
def test_a_point_that_ran_twice_its_steps_is_named_also_where_it_is_the_one_of_one_rank(wrong):
    table, _ = growing(0.1)
    at = table["ranks"] == wrong
    table.loc[at, "wall_s"] += table.loc[at, "steps_per_rank"] * 64 / table.loc[at, "images_per_s_per_rank"]
    result = explain.explain(table)
    assert list(result.misfits["ranks"]) == [wrong]
    assert result.misfits["steps_that_fit"].item() == pytest.approx(2 * 512 / wrong, rel=0.05)
    assert result.fixed_s.contains(12)
    # Speedups are over the smallest correct point.
    assert result.points.set_index("ranks")["ideal"].eq(1).idxmax() == (2 if wrong == 1 else 1)


def test_an_impossible_point_is_left_out_and_has_no_speedup():
    result = explain.explain(VGG19.assign(wall_s=[193.45, 101.92, 30.0, 30.83, 18.32, 12.4]))
    (finding,) = result.findings
    assert (finding.rule, finding.ranks) == ("too_short", (4,))
    point = result.points.set_index("ranks").loc[4]
    assert math.isnan(point["speedup_wall_time"])
    assert not point["used"]
    assert result.fixed_s.n == 5


def test_the_fixed_cost_is_fitted_or_shown_by_the_phases_of_local_records(results):
    # 12 s once, and 0.1 s for each of the steps.
    costs = explain.fixed_costs(curve([2, 4, 8, 16], [400, 200, 100, 50], [52.0, 32.0, 22.0, 17.0], 8, 80.0))
    assert costs["m", ""].value == pytest.approx(12)
    # Each launch pays a broadcast of 0.4 s and a first step of 6 s, of which 0.5 s is a steady step.
    for nodes in (1, 2, 4):
        results.add(nodes=nodes, step_s=0.5)
    (cost,) = explain.fixed_costs(wall_time_runs.points(results.table(), "results")[0]).values()
    assert cost.value == pytest.approx(5.9)
