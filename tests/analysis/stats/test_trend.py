import numpy as np
import pytest

from analysis.stats import trend


def test_of_one_curve_it_is_ordinary_regression():
    x, y = [0, 1, 2, 3], [1.0, 2.1, 2.9, 4.2]
    line, covariances = np.polyfit(x, y, 1, cov=True)
    result = trend.fit([list(zip(x, y, strict=True))]).slope
    assert (result.value, result.standard_error) == pytest.approx((line[0], covariances[0, 0] ** 0.5))
    assert (result.degrees, result.n) == (2, 4)


def test_curves_of_two_points_have_the_mean_of_their_slopes():
    # 4 and 5 for each step: 4.5; each curve is off its line by 0.25 at both ends: 4 x 0.0625 over 1 degree
    result = trend.fit([[(1, 15), (2, 19)], [(2, 20), (3, 25)]])
    assert (result.slope.value, result.slope.degrees, result.deviation) == (4.5, 1, pytest.approx(0.5))
    assert result.slope.standard_error == pytest.approx(0.5)  # 0.5 over the root of a spread of 1
    ahead = result.at(1, 4, 2)  # 22.5 at 2.5, and 1.5 steps on
    assert (ahead.value, ahead.standard_error) == (pytest.approx(29.25), pytest.approx(0.5 * (1 + 0.5 + 2.25) ** 0.5))


def test_rounding_moves_a_slope_at_its_ends():
    curve = [(0, 1.0), (2, 3.0)]
    assert trend.fit([curve]).rounding([[(0, 0.1), (2, 0.2)]]) == pytest.approx(0.15)  # 0.3 over a run of 2


def test_a_single_size_has_no_trend():
    with pytest.raises(ValueError, match="two values of x"):
        trend.fit([[(1, 2.0), (1, 3.0)]])


def test_the_squares_about_a_line_worked_by_hand():
    # 0, 1.1, 2: residuals -1/30, 1/15, -1/30
    square, degrees = trend.square_about_line(np.array([0.0, 1.0, 2.0]), np.array([0.0, 1.1, 2.0]))
    assert (square, degrees) == (pytest.approx(1 / 900 + 1 / 225 + 1 / 900), 1)
