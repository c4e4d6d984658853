import functools
import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import TableError, explain
from analysis.explain import models, runs, text
from analysis.user_table import table as user_table

pytestmark = pytest.mark.slow  # each fit simulates

# What the table behind report 000's plots says of vgg_19, by hand: of 101.92 s on 2 GPUs, 250 steps of 64 images at
# 169.37 images/s take 94.47 s; 7.45 s are left. On 4, 8 and 16 GPUs 6.58, 6.89 and 6.28 s; on 32, 13.34 s.
VGG19 = pd.DataFrame(
    {
        "model": "vgg_19",
        "ranks": [1, 2, 4, 8, 16, 32],
        "steps_per_rank": [500, 250, 125, 62, 31, 15],
        "batch_per_rank": 64,
        "wall_s": [193.45, 101.92, 55.03, 30.83, 18.32, 19.2],
        "images_per_s_per_rank": [170.24, 169.37, 165.11, 165.72, 164.77, 163.91],
    }
)
NOISE = np.array([0.2, -0.3, 0.1, 0.25, -0.2, -0.1, 0.15, -0.25, 0.05])


@functools.cache
def vgg19():
    return explain.explain(VGG19)


def curve(ranks, steps, wall_s, batch=64, speed=math.nan):
    return pd.DataFrame(
        {
            "model": "m",
            "ranks": ranks,
            "steps_per_rank": steps,
            "batch_per_rank": batch,
            "wall_s": wall_s,
            "images_per_s_per_rank": speed,
        }
    )


def growing(share, fixed_s=12.0, noise=0.005, images_per_s=170.0):
    """Fixed work on 1 to 32 ranks whose time per image grows by `share` at each doubling: wall times, and speeds."""
    ranks = np.array([1, 2, 4, 8, 16, 32])
    steps = np.array([512, 256, 128, 64, 32, 16])
    per_image = (1 + share * np.log2(ranks)) / images_per_s
    wall_s = (fixed_s + steps * 64 * per_image) * (1 + noise * NOISE[:6])
    return curve(ranks, steps, wall_s), 1 / per_image


def test_the_fixed_overhead_of_vgg19_of_report_000_is_what_its_measured_speeds_leave():
    result = vgg19()
    assert result.fit.model is models.SPEEDS
    # The mean of 7.45, 6.58, 6.89 and 6.28 s, to which the one of 5.48 s of a run of 193 s adds little.
    assert result.fit.fixed_s.low < 6.28 < 6.8 < result.fit.fixed_s.high < 8
    # 500 steps are shared out: whether it is paid once, or for each step and rank, cannot be told.
    assert (result.has_cost_beyond_steps, result.has_fixed_cost) == (True, None)
    beyond = result.points.set_index("ranks")["beyond_speed_s"]
    assert beyond[2] == pytest.approx(7.45, abs=0.01)
    assert beyond[32] == pytest.approx(13.34, abs=0.01)


def test_32_gpus_of_vgg19_took_as_long_as_twice_the_steps_whichever_point_is_left_out():
    result = vgg19()
    assert list(result.misfits["ranks"]) == [32]
    # (19.2 - 6.56) s of steps of 64 / 163.91 s
    assert result.misfits["steps_that_fit"].item() == pytest.approx(32.4, abs=0.3)
    for left_out in (1, 2, 4, 8, 16):
        others = explain.explain(VGG19[VGG19["ranks"] != left_out]).points.set_index("ranks")
        named = others["misfit"] | others["misfit_undecided"]
        assert named[named].index.tolist() == [32], left_out


def test_the_three_speedups_of_vgg19_on_16_gpus():
    point = vgg19().points.set_index("ranks").loc[16]
    assert point["speedup_throughput"] == pytest.approx(16 * 164.77 / 170.24)  # 15.49
    # 16 x 31 steps against 500: the work is not quite equal.
    assert point["speedup_wall_time"] == pytest.approx(193.45 / 18.32 * 496 / 500)  # 10.48
    assert point["speedup_without_fixed_low"] < 15.49 < point["speedup_without_fixed_high"]


def test_where_the_time_per_image_grows_the_measured_speeds_give_the_fixed_cost():
    table, speeds = growing(0.15)
    result = explain.explain(table.assign(images_per_s_per_rank=speeds))
    assert result.fit.fixed_s.low < 12 < result.fit.fixed_s.high
    assert result.fit.fixed_s.high - result.fit.fixed_s.low < 1
    assert result.growth_p < 0.05
    assert (result.points["speedup_without_fixed"] < result.points["ideal"] * 1.001).all()
    assert result.points["speedup_without_fixed"].iloc[-1] == pytest.approx(32 / 1.75, rel=0.02)


def test_without_speeds_the_growth_is_found_and_the_fixed_cost_holds_the_truth():
    table, _ = growing(0.15)
    result = explain.explain(table)
    assert result.fit.model is models.GROWING
    assert result.growth_p < 0.05
    assert result.fit.fixed_s.low < 12 < result.fit.fixed_s.high
    equal = result.fits["equal time per image"]
    assert equal.fixed_s.value > 17  # what an equal time per image would have said
    assert not result.reasonable("equal time per image")


def test_too_few_points_to_test_the_assumption_say_so():
    table, _ = growing(0.15)
    result = explain.explain(table[table["ranks"] < 8])
    assert result.fit.model is models.EQUAL
    assert "which cannot be tested with these points" in " ".join(text.sentences(result))
    with_one_more = explain.explain(table[table["ranks"] < 16])
    assert not math.isnan(with_one_more.growth_p)


# Once, and an image takes 1, 1.1, 1.2, 1.3 times as long: with an equal time per image it would be 13 s, or 22 s.
@pytest.mark.parametrize(("fixed_s", "low"), [(3, 0), (12, 12)])
def test_four_wall_times_hold_the_fixed_cost_that_an_equal_time_per_image_would_miss(fixed_s, low):
    table, _ = growing(0.1, fixed_s=fixed_s, noise=0.03)
    result = explain.explain(table[table["ranks"] < 16])
    assert result.fit.model is models.GROWING
    assert result.fit.fixed_s.low < low <= fixed_s < result.fit.fixed_s.high
    assert result.growth_p > 0.05
    assert result.fits["equal time per image"].fixed_s.low > low
    assert result.reasonable("equal time per image")
    assert low or result.has_fixed_cost is None


def test_an_assumption_that_fails_with_no_other_model_decides_nothing():
    # The run on one rank took less than its fixed cost: that the time per image grows fits only with one below zero.
    result = explain.explain(curve([1, 2, 4, 8], [141, 356, 29, 27], [11.6, 51.1, 18.5, 21.1]))
    assert result.fit.model is models.EQUAL
    assert result.growth_p < 0.05
    assert result.has_fixed_cost is None
    assert "so the fixed cost is wrong" in " ".join(text.sentences(result))


def test_no_speedup_above_the_ideal_without_saying_that_the_assumption_failed():
    # 12 s once, 200 s of images on one rank; a fit with an equal time per image takes the growth for a fixed cost.
    ranks, steps = np.array([2, 4, 8, 16]), np.array([256, 128, 64, 32])
    table = curve(ranks, steps, 12 + steps * 64 / 170 * (1 + 0.4 * np.log2(ranks / 2)))
    result = explain.explain(table[:3])  # too few to fit the growth
    assert text.beyond_ideal(result.points, "speedup_without_fixed").any()
    assert "is above the ideal" in " ".join(text.sentences(result))
    assert "the assumption failed there" in " ".join(text.sentences(result))


def test_speeds_of_which_all_are_some_per_cent_off_only_tell_how_they_differ():
    table, speeds = growing(0.1, noise=0.002)
    result = explain.explain(table.assign(images_per_s_per_rank=speeds * 1.06))
    assert result.fit.model is models.FACTOR
    assert result.fit.fixed_s.low < 12 < result.fit.fixed_s.high
    assert result.fit.images_per_s_per_rank.value == pytest.approx(float(np.median(speeds)), rel=0.01)
    assert "contradict the level of the measured speeds" in " ".join(text.sentences(result))


def test_equal_work_can_be_split_where_speeds_were_measured():
    result = explain.explain(curve([1, 2, 4], [100, 100, 100], [74.0, 84.1, 93.9], speed=[100.0, 6400 / 74, 6400 / 84]))
    assert result.fit.fixed_s.value == pytest.approx(10, abs=0.1)
    with pytest.raises(TableError, match=r"same work per rank \(6400 images\)"):
        explain.explain(curve([1, 2, 4], [100, 100, 100], [10.0, 11.0, 12.0]))


def test_several_works_at_one_number_of_ranks_need_no_assumption():
    # 12 s once; an image takes 0.010, 0.013 and 0.012 s on 1, 2 and 4 ranks: no growth that doublings share.
    ranks, steps = np.repeat([1, 2, 4], 3), np.tile([50, 100, 200], 3)
    per_image = np.repeat([0.010, 0.013, 0.012], 3)
    result = explain.explain(curve(ranks, steps, 12 + steps * 64 * per_image + NOISE / 10))
    assert result.fit.model.by_ranks
    assert result.fit.fixed_s.low < 12 < result.fit.fixed_s.high
    assert result.fit.images_per_s_per_rank.value == pytest.approx(100, rel=0.01)
    assert result.points["ranks"].tolist() == [1, 1, 1, 2, 2, 2, 4, 4, 4]


def test_one_number_of_ranks_suffices():
    result = explain.explain(curve(4, [50, 100, 200, 400], 12 + np.array([50, 100, 200, 400]) * 0.5 + NOISE[:4] / 10))
    assert result.fit.fixed_s.low < 12 < result.fit.fixed_s.high


def test_batches_that_vary_are_multiplied_run_by_run():
    # 2 s once and 0.01 s an image: 100 x 10 and 10 x 100 images on 2 ranks, 1000 each; mean x mean would be 3025.
    table = curve([1, 2, 2, 4], [100, 100, 10, 20], [52.0, 12.0, 12.0, 4.0], batch=[50, 10, 100, 10])
    result = explain.explain(table)
    assert result.points["images_per_rank"].tolist() == [5000, 1000, 1000, 200]
    assert result.fit.fixed_s.value == pytest.approx(2)


def test_repeats_are_runs_of_one_point():
    table = pd.concat([curve([1, 2, 4], [100, 50, 20], [14.0 + o, 9.0 + o, 6.0 + o], batch=10) for o in (0, 2)])
    result = explain.explain(table)
    assert result.points["runs"].tolist() == [2, 2, 2]
    assert result.points["wall_s"].tolist() == [15, 10, 7]
    assert result.fit.runs == 6
    assert result.fit.fixed_s.low < 5 < result.fit.fixed_s.high


@pytest.mark.parametrize("wrong", [1, 8, 32])
def test_a_point_that_ran_twice_its_steps_is_named_also_where_it_is_the_one_of_one_rank(wrong):
    table, speeds = growing(0.1)
    at = table["ranks"] == wrong
    table.loc[at, "wall_s"] += table.loc[at, "steps_per_rank"] * 64 / speeds[at]
    result = explain.explain(table.assign(images_per_s_per_rank=speeds))
    assert list(result.misfits["ranks"]) == [wrong]
    steps = result.misfits["steps_per_rank"].item()
    assert result.misfits["steps_that_fit"].item() == pytest.approx(2 * steps, rel=0.05)
    assert result.fit.fixed_s.low < 12 < result.fit.fixed_s.high
    # Speedups are over the smallest point that is not wrong.
    assert result.points.set_index("ranks")["ideal"].eq(1).idxmax() == (2 if wrong == 1 else 1)


def test_two_points_of_which_either_may_be_wrong_are_not_decidable():
    # The times beyond the speed are 4, 4, 4, 9 and 9 s: leaving out one of the last makes the other stand out.
    table = curve([2, 4, 8, 16, 32], [320, 160, 80, 40, 20], [36.0, 20.01, 11.99, 13, 11.01], 10, 100.0)
    result = explain.explain(table)
    assert result.misfits.empty
    assert result.points.loc[result.points["misfit_undecided"], "ranks"].tolist() == [16, 32]
    assert "Not decidable: whether the others predict the point at 16 ranks" in " ".join(text.sentences(result))


def test_where_a_point_is_undecided_the_intervals_hold_with_and_without_it():
    # 7 s, and 500 steps of 64 images at 170 images/s shared out, with noise of 1 %; 32 ranks ran 30 steps, not 15.
    wall_s = [194.63, 102.48, 54.16, 30.77, 18.7, 18.11]
    table = curve([1, 2, 4, 8, 16, 32], [500, 250, 125, 62, 31, 15], wall_s)
    result = explain.explain(table.assign(images_per_s_per_rank=[169.1, 170, 169.4, 171.1, 170.5, 170.7]))
    assert result.points.loc[result.points["misfit_undecided"], "ranks"].tolist() == [32]
    (without,) = result.fit.without_one
    assert without.ranks == (1, 2, 4, 8, 16)
    # The wrong point alone takes the speed too far, and the fixed cost not.
    assert result.fit.implied.speed(6).low > 170 > without.images_per_s_per_rank.low
    assert result.fit.images_per_s_per_rank.low == without.images_per_s_per_rank.low
    assert result.fit.fixed_s.interval == result.fit.linear.coefficient(0).number().interval
    output = " ".join(text.sentences(result))
    assert "depends on which are left out; the intervals span the fits with and without it." in output


def test_a_fixed_cost_that_depends_on_one_point_is_not_decidable():
    # 0.1 s beyond the speed at three points, and 0 at a fourth: without one of the three it could be none.
    table = curve([1, 2, 4, 8], [80, 40, 20, 10], [8.1, 4.12, 2.1, 1.0], 10, 100.0)
    result = explain.explain(table)
    assert {cost.low > 0 for cost in result.fixed_without_one_s} == {True, False}
    assert result.has_fixed_cost is None
    assert text.sentences(result)[0].startswith("Whether there is a fixed cost is not decidable")


def test_a_fixed_cost_that_does_not_differ_significantly_from_zero_explains_nothing():
    result = explain.explain(curve([1, 2, 4, 8], [80, 40, 20, 10], [8.05, 3.98, 2.02, 0.97], 10, 100.0))
    assert result.has_fixed_cost is False
    assert "The fixed cost does not differ significantly from zero" in text.sentences(result)[0]


def test_an_impossible_point_is_left_out_and_has_no_speedup():
    result = explain.explain(VGG19.assign(wall_s=[193.45, 101.92, 30.0, 30.83, 18.32, 12.4]))
    (finding,) = result.findings
    assert (finding.kind, finding.ranks) == ("impossible", (4,))
    point = result.points.set_index("ranks").loc[4]
    assert math.isnan(point["speedup_wall_time"])
    assert not point["used"]
    assert result.fit.ranks == (1, 2, 8, 16, 32)


def test_two_runs_without_speeds_cannot_be_split():
    with pytest.raises(TableError, match="2 runs"):
        explain.explain(curve([1, 2], [100, 50], [10.0, 6.0]))


def test_less_time_for_more_work_is_no_cost():
    with pytest.raises(TableError, match="does not grow"):
        explain.explain(curve([1, 2, 4], [100, 50, 25], [5.0, 6.0, 7.0]))


@settings(max_examples=4)
@given(
    fixed=st.floats(0.5, 100),
    step=st.floats(0.001, 10),
    steps=st.lists(st.integers(1, 10_000), min_size=4, max_size=7, unique=True),
    known=st.booleans(),
)
def test_any_exact_line_is_found_and_no_point_of_it_misfits(fixed, step, steps, known):
    wall_s = [fixed + step * n for n in steps]
    speed = 64 / step if known else math.nan
    result = explain.explain(curve(range(2, 2 + len(steps)), steps, wall_s, speed=speed))
    assert result.fit.fixed_s.value == pytest.approx(fixed, rel=1e-5, abs=1e-5 * max(wall_s))
    assert result.misfits.empty
    assert result.findings == ()


@pytest.mark.parametrize("scale", [0.01, 60])
def test_times_in_another_unit_change_no_speedup(scale):
    speeds = VGG19["images_per_s_per_rank"] / scale
    slower = explain.explain(VGG19.assign(wall_s=VGG19["wall_s"] * scale, images_per_s_per_rank=speeds))
    known = vgg19().points
    for column in ("speedup_wall_time", "speedup_without_fixed", "misfit_p", "steps_that_fit"):
        assert slower.points[column].to_numpy() == pytest.approx(known[column].to_numpy(), nan_ok=True, rel=1e-4)


WALL = "model,ranks,steps_per_rank,batch_per_rank,wall_s,images_per_s\n"


def test_the_fixed_cost_of_each_curve_of_a_file(tmp_path):
    """12 s once, and 0.1 s for each of the steps."""
    path = tmp_path / "curve.csv"
    path.write_text(WALL + "".join(f"vgg,{n},{800 // n},8,{12 + 80 / n},{80 * n}\n" for n in (2, 4, 8, 16)))
    costs = explain.fixed_costs(runs.read(user_table.read(path))[0])
    assert costs["vgg", ""].value == pytest.approx(12)


def test_phases_of_local_records_show_the_fixed_cost(results):
    """Each launch pays a broadcast of 0.4 s and a first step of 6 s, of which 0.5 s is a steady step."""
    for nodes in (1, 2, 4):
        results.add(nodes=nodes, step_s=0.5)
    (cost,) = explain.fixed_costs(runs.points(results.table(), "results")[0]).values()
    assert cost.value == pytest.approx(5.9)
