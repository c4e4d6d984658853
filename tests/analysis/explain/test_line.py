import pandas as pd
import pytest

from analysis.explain import line, wall_time_runs
from tests.helpers.wall_time_curves import curve

# 10 s once; 0.1 s a step of 8 images on 1 rank, 0.2 s on 2.
WORKS = curve([1, 1, 1, 2, 2, 2], [50, 100, 200] * 2, [15.0, 20, 30, 20, 30, 50], 8)


def test_a_line_through_points_on_it_has_the_noise_of_repeated_points_alone():
    """Two of six degrees: 2 % x sqrt(2 / 5) with three costs fitted to six times, and residuals of zero."""
    fit = line.OWN.fit(wall_time_runs.prepared(WORKS))
    assert fit.costs == pytest.approx([10, 0.1 / 8, 0.2 / 8])
    assert fit.noise.degrees == 3 + line.DEGREES
    assert fit.noise.share == pytest.approx(0.02 * (2 / 5) ** 0.5)


def test_two_times_have_the_noise_of_repeated_points():
    """F = 2 t1 - t2 = 10 s. Its variance is 4 d1^2 + d2^2 of 2 %, with d^2 = (15^2 + t^2) / 2.

    Steps that change by 1 % from 50 to 100 of them change 10 s of the second run by 0.1 s.
    """
    fit = line.paid_once(wall_time_runs.prepared(WORKS[:2]))
    first, second = (15**2 + 15**2) / 2, (15**2 + 20**2) / 2
    assert fit.cost(0).standard_error == pytest.approx((0.02**2 * (4 * first + second) + 0.1**2) ** 0.5)
    assert (fit.cost(0).value, fit.cost(0).degrees) == pytest.approx((10, 2))


def test_runs_that_scatter_by_more_than_expected_have_the_t_of_their_residuals_alone():
    """14 and 16 s of 50 steps, 20 s of 100: one degree, the share is 2 s / sqrt(196 + 226 s^2) = 0.0974.

    The variances of 14 and 16 s are 196 and 226 s^2 over that share, that of 20 s is 298: of their mean m = 14.93 s it
    is 105 s^2. F = 2 m - 20 s, sqrt(4 x 105 + 298) s = 26.8 s; steps that change by 1 % change F by 0.1 s.
    """
    fit = line.paid_once(wall_time_runs.prepared(curve([1, 1, 1], [50, 50, 100], [14.0, 16.0, 20.0], 8)))
    numbers = fit.cost(0).value, fit.cost(0).standard_error, fit.cost(0).degrees
    assert numbers == pytest.approx((9.858, 2.611, 1), abs=0.002)


def test_one_work_at_each_number_of_ranks_shows_nothing_that_is_paid_once():
    assert line.paid_once(wall_time_runs.prepared(curve([1, 2, 4], [400, 200, 100], [50.0, 30, 20]))) is None
    # Batches differ: the time per image may differ with them.
    assert line.paid_once(wall_time_runs.prepared(curve(1, [100, 200], [20.0, 30], [8, 16]))) is None
    # 2 epochs of 400 and of 800 images: an evaluation of each epoch would be paid alike.
    assert line.paid_once(wall_time_runs.prepared(curve(1, [100, 200], [20.0, 30], 8, epochs=2))) is None


@pytest.mark.parametrize("recurs_s", [0.02, 0.5])
def test_what_recurs_with_the_steps_is_not_paid_once(recurs_s):
    table = WORKS.assign(wall_s=WORKS["wall_s"] + recurs_s * WORKS["steps_per_rank"] * WORKS["ranks"])
    assert line.paid_once(wall_time_runs.prepared(table)).costs[0] == pytest.approx(10)


def test_half_a_per_cent_is_no_misfit_however_little_the_others_scatter():
    table = wall_time_runs.prepared(pd.concat([WORKS] * 8, ignore_index=True))
    table.loc[table["point"] == table["point"][0], "wall_s"] *= 1.005
    assert not line.misfits(line.OWN, table)["misfit"].any()


def test_without_speeds_or_several_works_no_point_is_a_misfit():
    """The time per image may differ at each number of ranks."""
    table = wall_time_runs.prepared(curve([1, 2, 4, 8], [400, 200, 100, 50], [52.0, 32, 60, 17]))
    assert line.misfits(line.EQUAL, table).empty
