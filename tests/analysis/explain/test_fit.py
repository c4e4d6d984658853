import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from analysis import TableError
from analysis.explain import fit as explain
from analysis.explain import words

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


def curve(ranks, steps, wall_s, batch=64, speed=float("nan")):
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


def with_work(points):
    return points.assign(images_per_rank=points["steps_per_rank"] * points["batch_per_rank"])


def test_an_exact_line_gives_its_costs_back_without_error():
    # 5 s once and 0.1 s a step of 10 images: 0.01 s an image
    fit = explain.fit(with_work(curve([1, 2, 4], [100, 50, 20], [15.0, 10.0, 7.0], batch=10)))
    assert fit.fixed_s.value == pytest.approx(5)
    assert fit.s_per_image.value == pytest.approx(0.01)
    assert fit.fixed_s.half_width == pytest.approx(0, abs=1e-5)
    assert fit.images_per_s_per_rank.value == pytest.approx(100)


def test_the_intervals_are_those_of_a_regression_worked_by_hand():
    # y = 1, 2, 4 at x = 0, 1, 2 images (batch 1; x = 0 stands for a run without a step): slope 3/2, intercept 5/6,
    # residuals 1/6, -1/3, 1/6: variance 1/6 with 1 degree. se(slope) = sqrt(1/12), se(intercept) = sqrt(5/36);
    # Student's t(0.975, 1) = 12.706.
    points = pd.DataFrame({"ranks": [4, 2, 1], "images_per_rank": [0.0, 1.0, 2.0], "wall_s": [1.0, 2.0, 4.0]})
    fit = explain.fit(points)
    assert fit.s_per_image.value == pytest.approx(1.5)
    assert fit.fixed_s.value == pytest.approx(5 / 6)
    assert fit.s_per_image.half_width == pytest.approx(12.7062 * (1 / 12) ** 0.5, rel=1e-4)
    assert fit.fixed_s.half_width == pytest.approx(12.7062 * (5 / 36) ** 0.5, rel=1e-4)


def test_vgg19_of_report_000_pays_about_seven_seconds_once():
    found = explain.explain(VGG19)
    assert found.fit.fixed_s.low < 6.28 < 7.45 < found.fit.fixed_s.high
    assert list(found.points.loc[found.points["misfit"], "ranks"]) == [32]
    # The speed that the wall times imply, against the measured 163.91 to 170.24 that the regression never saw.
    assert found.fit.images_per_s_per_rank.low < 165.4 < found.fit.images_per_s_per_rank.high
    beyond = found.points.set_index("ranks")["beyond_speed_s"]
    assert beyond[2] == pytest.approx(7.45, abs=0.01)
    assert beyond[32] == pytest.approx(13.34, abs=0.01)


def test_the_three_speedups_of_vgg19_on_16_gpus():
    point = explain.explain(VGG19).points.set_index("ranks").loc[16]
    assert point["speedup_throughput"] == pytest.approx(16 * 164.77 / 170.24)  # 15.49
    # 16 x 31 steps against 500: the work is not quite equal.
    assert point["speedup_wall_time"] == pytest.approx(193.45 / 18.32 * 496 / 500)  # 10.48
    assert point["speedup_without_fixed_low"] < 16 < point["speedup_without_fixed_high"]


def test_the_speed_is_never_used_by_the_regression():
    blind = explain.explain(VGG19.assign(images_per_s_per_rank=float("nan")))
    assert blind.fit == explain.explain(VGG19).fit


def test_the_point_of_one_rank_is_not_tested_where_the_line_leaves_it_out():
    found = explain.explain(VGG19)
    assert list(found.fits) == ["all points", "2+ ranks", "2+ ranks, not 32"]
    assert found.fit.ranks == (2, 4, 8, 16)
    # With three points of several ranks, the one of a single rank is needed.
    assert explain.explain(VGG19[VGG19["ranks"] < 16]).fit.ranks == (1, 2, 4, 8)


def test_one_point_off_an_exact_line_is_named_and_left_out():
    steps = [320, 160, 80, 40, 20]
    wall_s = [4 + 0.1 * n for n in steps]
    wall_s[2] += 3
    found = explain.explain(curve([2, 4, 8, 16, 32], steps, wall_s))
    assert list(found.misfits["ranks"]) == [8]
    assert found.fit.fixed_s.value == pytest.approx(4)
    assert "The point at 8 ranks does not fit: it took 15 s, 3 s more" in " ".join(words.sentences(found))


def test_four_points_are_too_few_to_name_one():
    found = explain.explain(curve([2, 4, 8, 16], [320, 160, 80, 40], [36.0, 20.0, 15.0, 8.0]))
    assert found.points["misfit_p"].isna().all()
    assert found.misfits.empty


def test_scatter_alone_names_no_point():
    steps = [320, 160, 80, 40, 20]
    wall_s = [4 + 0.1 * n + noise for n, noise in zip(steps, [0.2, -0.3, 0.3, -0.1, -0.1], strict=True)]
    assert explain.explain(curve([2, 4, 8, 16, 32], steps, wall_s)).misfits.empty


@settings(max_examples=30)
@given(
    fixed=st.floats(0.5, 100),
    step=st.floats(0.001, 10),
    steps=st.lists(st.integers(1, 10_000), min_size=3, max_size=8, unique=True),
)
def test_any_exact_line_is_found_and_no_point_of_it_misfits(fixed, step, steps):
    found = explain.explain(curve(range(2, 2 + len(steps)), steps, [fixed + step * n for n in steps]))
    assert found.fit.fixed_s.value == pytest.approx(fixed, rel=1e-6, abs=1e-6 * step * max(steps))
    assert found.fit.s_per_image.value * 64 == pytest.approx(step, rel=1e-6)
    assert found.misfits.empty


@settings(max_examples=15)
@given(scale=st.floats(0.01, 100))
def test_times_in_another_unit_change_no_speedup(scale):
    slower = VGG19.assign(wall_s=VGG19["wall_s"] * scale)
    for column in ("speedup_wall_time", "speedup_without_fixed", "misfit_p"):
        assert explain.explain(slower).points[column].to_numpy() == pytest.approx(
            explain.explain(VGG19).points[column].to_numpy(), nan_ok=True
        )


def test_strong_scaling_counts_the_images_of_a_step():
    # 100 steps at every point, the batch shrinks: 2 s once and 0.01 s an image.
    found = explain.explain(curve([1, 2, 4], [100, 100, 100], [66.0, 34.0, 18.0], batch=[64, 32, 16]))
    assert found.fit.fixed_s.value == pytest.approx(2)
    assert found.fit.s_per_image.value == pytest.approx(0.01)


def test_equal_work_a_rank_cannot_be_split():
    with pytest.raises(TableError, match=r"same work per rank \(6400 images\)"):
        explain.explain(curve([1, 2, 4], [100, 100, 100], [10.0, 11.0, 12.0]))


def test_two_points_cannot_be_split():
    with pytest.raises(TableError, match="2 points"):
        explain.explain(curve([1, 2], [100, 50], [10.0, 6.0]))


def test_less_time_for_more_work_is_no_cost():
    with pytest.raises(TableError, match="does not grow"):
        explain.explain(curve([1, 2, 4], [100, 50, 25], [5.0, 6.0, 7.0]))


def test_a_fixed_cost_that_cannot_be_told_from_zero_explains_nothing():
    found = explain.explain(curve([1, 2, 4], [100, 50, 25], [10.1, 4.9, 2.5]))
    assert "No fixed cost can be told from zero" in words.sentences(found)[0]


def test_repeats_of_a_point_are_averaged():
    points = pd.concat(
        [
            curve([1, 2, 4], [100, 50, 20], [14.0, 9.0, 6.0], batch=10).assign(repeat=0),
            curve([1, 2, 4], [100, 50, 20], [16.0, 11.0, 8.0], batch=10).assign(repeat=1),
        ]
    )
    found = explain.explain(points)
    assert list(found.points["repeats"]) == [2, 2, 2]
    assert found.fit.fixed_s.value == pytest.approx(5)


def test_phases_show_where_the_fixed_cost_went():
    # Steps of 64 / 32 = 2 s: of a first step of 5 s, 3 are tracing; of 3 warm-up and 10 timed steps, 29 s, 3 are extra.
    points = curve([2], [14], [35.5], speed=32.0).assign(
        phase_broadcast_s=1.0, phase_first_step_s=5.0, phase_warm_up_s=9.0, phase_timed_s=20.0
    )
    split = explain.phases(points).iloc[0]
    assert split[["broadcast_s", "first_step_s", "warm_up_s", "other_s", "fixed_s"]].tolist() == [1, 3, 3, 0.5, 7.5]


def test_published_numbers_have_no_phases():
    assert explain.phases(VGG19).empty
