import math

import numpy as np
import pytest

from analysis.stats import between, exact, student, unknown
from analysis.stats.student import Noise, pooled, with_noise
from record.intervals import student_quantile


@pytest.mark.filterwarnings("error")  # NumPy's, of the deviation of one value
def test_the_interval_of_a_mean_is_students():
    result = student.mean([10.0, 11.0, 12.0])
    # s = 1, so 1/sqrt(3); t(0.975, 2) = 4.3027 from the printed tables
    assert (result.value, result.n, result.degrees, result.variation) == (11, 3, 2, "between launches")
    assert result.interval == pytest.approx((11 - 2.4841, 11 + 2.4841), rel=1e-4)
    result = student.mean([10.0])
    assert (result.value, result.n, result.has_interval, result.variation) == (10, 1, False, "")


def test_no_or_impossible_values_are_refused():
    for values in ([], [1.0, math.nan], [math.inf]):
        with pytest.raises(ValueError, match="finite"):
            student.mean(values)
    for pair in ((1.0, 0.0), (0.0, 1.0)):
        with pytest.raises(ValueError, match="positive"):
            student.ratio(*map(exact, pair))
    with pytest.raises(ValueError, match="two values of x"):
        student.trend([[(1, 2.0), (1, 3.0)]])


def test_errors_of_a_ratio_add_in_quadrature():
    # 3 % and 4 % make 5 %; Welch-Satterthwaite: 0.05^4 / (0.03^4 / 4 + 0.04^4 / 4) = 4 * 625 / 337
    result = student.ratio(student.student(200.0, 6.0, 4, 5), student.student(100.0, 4.0, 4, 6))
    assert (result.value, result.n, result.standard_error) == (2, 5, pytest.approx(0.1))
    assert result.degrees == pytest.approx(2500 / 337)
    for other in (unknown(100.0), exact(100.0)):  # without a standard error
        assert not student.ratio(student.student(200.0, 6.0, 4, 5), other).has_interval
    assert student.ratio(student.student(0.5, 0.0, 4, 5), student.student(0.25, 0.0, 4, 5)).interval == (2.0, 2.0)


def test_the_ratio_of_geometric_means_and_welchs_interval_worked_by_hand():
    # logarithms ±0.1 and ±0.2: standard errors 0.1 and 0.2; (0.01 + 0.04)^2 / (0.01^2 + 0.04^2) = 25 / 17 degrees
    a, b = ([level * math.exp(x) for x in (-far, far)] for level, far in ((10, 0.1), (20, 0.2)))
    result = student.ratio_of_geometric_means(a, b)
    apart = math.exp(student_quantile(0.95, 25 / 17) * 0.05**0.5)
    assert (result.value, result.low, result.high) == pytest.approx((2, 2 / apart, 2 * apart))
    ratio = student.ratio_of_geometric_means(a, b, [[5.0]], value=3.0)  # which shows no scatter
    assert (ratio.value, ratio.low) == pytest.approx((3, 3 / apart))


def test_a_single_launch_scatters_as_those_on_the_other_side_worked_by_hand():
    # the logarithms have the standard deviation 0.1; the error of the ratio is 0.1 x sqrt(1 + 1/3), 2 degrees
    several = [10 * math.exp(x) for x in (-0.1, 0, 0.1)]
    apart = math.exp(4.302653 * 0.1 * math.sqrt(4 / 3))  # t(0.975, 2)
    after, before = (student.ratio_of_geometric_means(*pair) for pair in ((several, [12]), ([12], several)))
    assert (after.value, *after.interval) == pytest.approx((1.2, 1.2 / apart, 1.2 * apart))
    assert before.interval == pytest.approx((1 / 1.2 / apart, 1 / 1.2 * apart))
    assert not student.ratio_of_geometric_means([10], [12]).has_interval
    one_side = student.geometric_mean(several)
    assert (one_side.value, one_side.high) == pytest.approx((10, 10 * math.exp(4.302653 * 0.1 / math.sqrt(3))))


def test_older_launches_show_how_far_launches_scatter_worked_by_hand():
    # logs about the mean of their group: 0 before and now, ±0.01 in two older ones: s = 0.01 sqrt(4 / 4), 4 degrees
    older = [[level * math.exp(x) for x in (0.01, -0.01)] for level in (1, 100)]
    result = student.ratio_of_geometric_means([10, 10], [9, 9], older)
    apart = math.exp(2.776445 * 0.01)  # t(0.975, 4), times sqrt(1/2 + 1/2)
    assert (result.value, *result.interval) == pytest.approx((0.9, 0.9 / apart, 0.9 * apart))


def test_squares_are_pooled_over_their_degrees_worked_by_hand():
    # (0.02 + 0.04) / (1 + 2) = 0.02; 0.01 for a mean of two
    assert pooled([(0.02, 1), (0.04, 2)], 2, "a") == Noise(pytest.approx(0.1), 3, "a")
    assert pooled([]) is None
    # About the line 0.5 + x: 0.5, -1, 0.5, and one degree of three points.
    assert student.square_about_line(np.array([0.0, 1.0, 2.0]), np.array([1.0, 0.5, 3.0])) == (pytest.approx(1.5), 1)


def test_the_noise_of_both_runs_widens_a_quotient():
    # Two groups, 0.01 each: degrees (1 + 1)^2 / (1/3 + 1/5) = 7.5; t(0.975, 7.5) = 2.333
    runs = [(Noise(0.01, 3, "4"), 1.0), (Noise(0.01, 5, "1"), -1.0)]
    wide = with_noise(between(2.0, 1.99, 2.01), runs)
    factor = math.exp(2.3334 * 0.01 * 2**0.5)
    assert (wide.low, wide.high) == pytest.approx((1.99 / factor, 2.01 * factor), rel=1e-5)
    assert wide.variation == "between launches"
    assert math.isnan(with_noise(between(2.0, 1.99, 2.01), [(Noise(0.01, 3), 1.0), (None, -1.0)]).low)
    # Two measurements of one group have one estimate of their noise, the lesser: t(0.975, 3) = 3.182
    wide = with_noise(exact(2.0), [(Noise(0.01, 3), 1.0), (Noise(0.01, 5), -1.0)])
    assert wide.high == pytest.approx(2 * math.exp(3.1824 * 0.01 * 2**0.5), rel=1e-5)


def test_one_curve_gives_ordinary_regression():
    x, y = [0, 1, 2, 3], [1.0, 2.1, 2.9, 4.2]
    line, covariances = np.polyfit(x, y, 1, cov=True)
    result = student.trend([list(zip(x, y, strict=True))]).slope
    assert (result.value, result.standard_error) == pytest.approx((line[0], covariances[0, 0] ** 0.5))
    assert (result.degrees, result.n) == (2, 4)


def test_curves_of_two_points_have_the_mean_of_their_slopes():
    # 2 and 2.5 for each 1 of x: 2.25; each curve is off its line by 0.25 at both ends: 4 x 0.0625 over 1 degree
    result = student.trend([[(1, 15), (3, 19)], [(2, 20), (4, 25)]])
    assert (result.slope.value, result.slope.degrees, result.deviation) == (2.25, 1, pytest.approx(0.5))
    assert result.slope.standard_error == pytest.approx(0.25)  # 0.5 over the root of a spread of 4
    predicted = result.at(1, 6, 2)  # 22.5 at 3, and 3 further on
    assert (predicted.value, predicted.standard_error) == pytest.approx((29.25, 0.5 * (1 + 0.5 + 3**2 / 4) ** 0.5))
    assert result.slope.variation == predicted.variation == "about the fit"
    alone = student.trend([[(1, 15), (3, 19)]]).slope
    assert (alone.value, alone.n, alone.has_interval) == (2, 2, False)
