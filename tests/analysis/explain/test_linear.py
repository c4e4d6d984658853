import numpy as np
import pytest

from analysis.explain.linear import MIXES, System, relative_s2

X, Y = np.array([1.0, 2, 3, 5, 8]), np.array([12.1, 13.9, 16.2, 19.8, 26.1])
ALIKE_S = [10.0, 10.1, 10.2]


def line(x, y):
    x, y = np.asarray(x, float), np.asarray(y, float)
    return System(np.column_stack([np.ones_like(x), x])[None], y, y)


def mean_of(times_s, by_speeds=False):
    """Return the fit of a single cost to these times."""
    return System(np.ones((1, len(times_s), 1)), np.array(times_s), np.array(times_s), by_speeds).solve()


def test_with_additive_noise_alone_it_is_the_ordinary_line():
    solved = line(X, Y).solve()
    expected, covariances = np.polyfit(X, Y, 1, cov=True)  # the slope comes first
    assert solved.coefficients[0] == pytest.approx(expected[::-1], rel=1e-3)
    errors = np.sqrt(np.diagonal(solved.basis.covariances[0]) * solved.fitted.scales_s2[0])
    assert errors == pytest.approx(np.sqrt(np.diagonal(covariances))[::-1], rel=1e-3)


def test_with_proportional_noise_alone_it_is_the_line_weighted_by_the_inverse_square():
    design = np.column_stack([np.ones_like(X), X]) / Y[:, None]
    expected = np.linalg.lstsq(design, np.ones_like(Y), rcond=None)[0]
    assert line(X, Y).solve().coefficients[-1] == pytest.approx(expected, rel=1e-3)


# Times that are alike have a single cost: their mean, and Student's t times the standard error, whatever the mix.
@pytest.mark.parametrize(
    ("times_s", "mean_s", "half_s", "rel"),
    [
        (ALIKE_S, 10.1, 4.849 * 0.1 / 3**0.5, 0.08),  # t(0.98, 2); the draws: a standard error of 5 %
        ([10.0, 10.2], 10.1, 12.706 * 0.1, 0.001),  # t(0.975, 1), without draws
    ],
)
def test_alike_times_leave_only_one_noise_and_student_t(times_s, mean_s, half_s, rel):
    result = mean_of(times_s).coefficient(0).number()
    assert result.value == pytest.approx(mean_s, rel=1e-4)
    assert result.high - mean_s == pytest.approx(half_s, rel=rel)
    assert mean_s - result.low == pytest.approx(result.high - mean_s, rel=0.02)
    assert result.n == len(times_s)


def test_a_perfect_line_has_an_interval_of_no_width():
    result = line([1, 2, 4, 8], [6.0, 7.0, 9.0, 13.0]).solve().coefficient(0).number()
    assert (result.low, result.value, result.high) == pytest.approx((5, 5, 5), rel=1e-6)


def test_the_noise_that_is_there_weighs_the_times():
    # 1 % of noise on times from 10 to 1000: the small ones show the fixed cost of 5, the large ones 0.01 x 1000.
    rng = np.random.default_rng(0)
    x = np.array([5.0, 10, 50, 100, 500, 1000] * 4)
    cost = line(x, (5 + x) * (1 + rng.normal(0, 0.01, len(x)))).solve().coefficient(0).number()
    assert cost.contains(5)
    assert cost.high - cost.low < 0.5


@pytest.mark.parametrize(
    "system",
    [
        line([3, 3, 3], [1, 2, 3]),
        line([3], [1]),
        line([1, 2, 2, 2], [1, 2, 3, 4]).with_cost(np.array([True, False, False, False])),
        System(np.array([[[1.0, 1], [1, 2], [1, 3]], [[1, 0], [1, 0], [1, 0]]]), np.ones(3), np.ones(3)),
    ],
    ids=["no difference in x", "fewer times than costs", "only one apart", "one of two shapes"],
)
def test_costs_that_cannot_be_distinguished_are_not_solved(system):
    assert system.solve() is None


def test_no_degree_of_freedom_has_no_interval_and_no_p():
    cost = line([1, 2], [5, 6]).solve().coefficient(0)
    assert np.isnan([cost.number().low, cost.p()]).all()
    assert cost.number().value == pytest.approx(4)


def test_one_run_apart_is_its_distance_from_the_line_of_the_others():
    system = line([1, 2, 3, 4], [3.0, 4.0, 5.0, 9.0])  # 2 + x, and 3 too many at 4
    solved = system.with_cost(np.array([False, False, False, True])).solve()
    assert solved.coefficient(2).number().value == pytest.approx(3)
    assert solved.coefficient(2).p() < 1e-6
    assert system.with_cost(np.array([True, False, False, False])).solve().coefficient(2).p() > 0.05


def test_a_difference_within_a_margin_has_no_small_p():
    number = mean_of(ALIKE_S).coefficient(0)
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
    designs = np.stack([np.column_stack([np.ones_like(x), column]) for column in (x, x**2)])
    both = System(designs, 5 + 2 * x + off, 5 + 2 * x + off).solve()
    assert both.coefficients.shape == (2 * len(MIXES), 2)
    assert both.coefficient(0).number().value == pytest.approx(5, abs=0.05)
    # At x = 4 it is 5 + 2 x 4, of both shapes together.
    assert both.combination(np.array([[1.0, 4.0], [1.0, 16.0]])).value == pytest.approx(13, abs=0.05)
    neither = System(designs, 5 + x**1.5, 5 + x**1.5).solve().coefficient(0)
    assert neither.number().contains(5)


@pytest.mark.parametrize(("by_speeds", "least", "most"), [(False, 1.37, 1.46), (True, 2, 4.303)])
def test_the_noise_of_measured_speeds_is_not_that_of_the_wall_times(by_speeds, least, most):
    # The distance of the first of three times from their mean, in its standard errors, is sqrt(2) within 3 % if all
    # noise is in the times. Noise of the speeds is in the scatter about the mean, but not in the first wall time.
    def first(fitted):
        return fitted.explained_s[..., :1] - fitted.coefficients[..., 0], np.sqrt(fitted.scales_s2 * 2 / 3)

    result = mean_of(ALIKE_S, by_speeds).mixture(first, np.zeros(len(MIXES))).number()
    assert least < (result.high - result.low) / 2 / (0.1 * (2 / 3) ** 0.5) < most
