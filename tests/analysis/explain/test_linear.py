import numpy as np
import pytest

from analysis.explain.linear import MIXES, System, relative_s2


def line(x, y):
    x, y = np.asarray(x, float), np.asarray(y, float)
    return System(np.column_stack([np.ones_like(x), x])[None], y, y)


def test_with_additive_noise_alone_it_is_the_ordinary_line():
    x, y = [1, 2, 3, 5, 8], [12.1, 13.9, 16.2, 19.8, 26.1]
    solved, (known, covariances) = line(x, y).solve(), np.polyfit(x, y, 1, cov=True)  # of which the slope comes first
    assert solved.coefficients[0] == pytest.approx(known[::-1], rel=1e-3)
    errors = np.sqrt(np.diagonal(solved.basis.covariances[0]) * solved.fitted.scales_s2[0])
    assert errors == pytest.approx(np.sqrt(np.diagonal(covariances))[::-1], rel=1e-3)


def test_with_proportional_noise_alone_it_is_the_line_weighted_by_the_inverse_square():
    x, y = np.array([1.0, 2, 3, 5, 8]), np.array([12.1, 13.9, 16.2, 19.8, 26.1])
    design = np.column_stack([np.ones_like(x), x]) / y[:, None]
    known = np.linalg.lstsq(design, np.ones_like(y), rcond=None)[0]
    assert line(x, y).solve().coefficients[-1] == pytest.approx(known, rel=1e-3)


def test_alike_times_leave_only_one_noise_and_student_t():
    # One cost, of 10.0, 10.1, 10.2: the mean, and t(0.98, 2) = 4.849 times 0.1 / sqrt(3), whatever the mix.
    times = np.array([10.0, 10.1, 10.2])
    result = System(np.ones((1, 3, 1)), times, times).solve().coefficient(0).number()
    half = 4.849 * 0.1 / 3**0.5
    assert result.value == pytest.approx(10.1, rel=1e-4)
    assert result.high - result.value == pytest.approx(half, rel=0.08)  # the draws: a standard error of 5 %
    assert result.value - result.low == pytest.approx(result.high - result.value, rel=0.02)
    assert result.n == 3


def test_the_same_times_have_the_same_interval_to_the_last_digit():
    x, y = [1, 2, 3, 5, 8], [12.1, 13.9, 16.2, 19.8, 26.1]
    one, other = (line(x, y).solve().coefficient(0).number() for _ in range(2))
    assert (one.value, one.interval) == (other.value, other.interval)


def test_a_perfect_line_has_an_interval_of_no_width():
    result = line([1, 2, 4, 8], [6.0, 7.0, 9.0, 13.0]).solve().coefficient(0).number()
    assert (result.low, result.value, result.high) == pytest.approx((5, 5, 5), rel=1e-6)


def test_one_degree_of_freedom_has_student_t_without_draws():
    # The mean of 10.0 and 10.2, and t(0.975, 1) = 12.706 times 0.1414 / sqrt(2).
    times = np.array([10.0, 10.2])
    result = System(np.ones((1, 2, 1)), times, times).solve().coefficient(0).number()
    assert (result.low, result.high) == pytest.approx((10.1 - 1.2706, 10.1 + 1.2706), rel=1e-3)


def test_the_noise_at_hand_weighs_the_times():
    # 1 % of noise on times from 10 to 1000: the small ones tell the fixed cost of 5, the large ones 0.01 x 1000.
    rng = np.random.default_rng(0)
    x = np.array([5.0, 10, 50, 100, 500, 1000] * 4)
    solved = line(x, (5 + x) * (1 + rng.normal(0, 0.01, len(x)))).solve()
    cost = solved.coefficient(0).number()
    assert cost.low < 5 < cost.high
    assert cost.high - cost.low < 0.5


def test_costs_that_cannot_be_distinguished_are_not_solved():
    assert line([3, 3, 3], [1, 2, 3]).solve() is None
    assert line([3], [1]).solve() is None
    apart = line([1, 2, 2, 2], [1, 2, 3, 4]).apart(np.array([True, False, False, False]))
    assert apart.solve() is None


def test_no_degree_of_freedom_has_no_interval_and_no_p():
    solved = line([1, 2], [5, 6]).solve()
    assert np.isnan([solved.coefficient(0).number().low, solved.coefficient(0).p()]).all()
    assert solved.coefficient(0).number().value == pytest.approx(4)


def test_one_run_apart_is_its_distance_from_the_line_of_the_others():
    system = line([1, 2, 3, 4], [3.0, 4.0, 5.0, 9.0])  # 2 + x, and 3 too many at 4
    solved = system.apart(np.array([False, False, False, True])).solve()
    assert solved.coefficient(2).number().value == pytest.approx(3)
    assert solved.coefficient(2).p() < 1e-6
    assert system.apart(np.array([True, False, False, False])).solve().coefficient(2).p() > 0.05


def test_a_difference_within_a_margin_has_no_small_p():
    times = np.array([10.0, 10.1, 10.2])
    number = System(np.ones((1, 3, 1)), times, times).solve().coefficient(0)
    assert number.p(10.1) == pytest.approx(1, abs=0.01)
    assert number.p(9) < 0.01
    assert number.p(9, within=1.2) > 0.5


def test_relative_variances_are_additive_first_and_proportional_last():
    result = relative_s2(np.array([1.0, 100]), np.array([10.0]))
    assert result[0] == pytest.approx([1, 1], abs=0.02)
    assert result[-1][1] / result[-1][0] == pytest.approx(1e4, rel=0.02)


def test_two_shapes_of_a_cost_are_one_mixture_that_leans_to_the_one_that_fits():
    # 5 s and 2 s for each x; the other shape, x^2, leaves a lot.
    x, off = np.array([1.0, 2, 3, 5, 8, 9]), np.array([0.01, -0.02, 0.01, 0.02, -0.02, 0.01])
    designs = np.stack([np.column_stack([np.ones_like(x), of]) for of in (x, x**2)])
    both = System(designs, 5 + 2 * x + off, 5 + 2 * x + off).solve()
    assert both.coefficients.shape == (2 * len(MIXES), 2)
    assert both.coefficient(0).number().value == pytest.approx(5, abs=0.05)
    # At x = 4 it is 5 + 2 x 4, of both shapes together.
    assert both.combination(np.array([[1.0, 4.0], [1.0, 16.0]])).value == pytest.approx(13, abs=0.05)
    neither = System(designs, 5 + x**1.5, 5 + x**1.5).solve().coefficient(0)
    assert neither.number().low < 5 < neither.number().high


def test_a_cost_that_one_shape_cannot_tell_is_not_solved():
    x = np.array([1.0, 2, 3])
    designs = np.stack([np.column_stack([np.ones_like(x), of]) for of in (x, np.zeros_like(x))])
    assert System(designs, x, x).solve() is None


def test_the_noise_of_measured_speeds_is_not_that_of_the_wall_times():
    # How far the first of three times is from their mean, in its standard errors: were all noise theirs, never more
    # than sqrt(2). Noise of the speeds is in the scatter about the mean, and not in the first wall time.
    times = np.array([10.0, 10.1, 10.2])

    def first(fitted):
        return fitted.explained_s[..., :1] - fitted.coefficients[..., 0], np.sqrt(fitted.scales_s2 * 2 / 3)

    def reach(by_speeds):
        solved = System(np.ones((1, 3, 1)), times, times, by_speeds).solve()
        result = solved.mixture(first, np.zeros(len(MIXES))).number()
        return (result.high - result.low) / 2 / (0.1 * (2 / 3) ** 0.5)

    assert reach(by_speeds=False) == pytest.approx(2**0.5, rel=0.03)
    assert 2 < reach(by_speeds=True) < 4.303
