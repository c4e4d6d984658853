import math

import numpy as np
import pytest

from analysis.stats.mixture import Mixture, below, calibrated_level, normal_errors


def mixture(centres, errors, weights, degrees=4, level=0.05):
    return Mixture(np.array(centres), np.array(errors), np.array(weights), degrees, degrees + 2, lambda: level)


def test_one_component_is_students_t():
    # t with 4 degrees: 2.776 at 97.5 %; beyond 2 on either side 0.1161
    result = mixture([10.0], [2.0], [1.0])
    number = result.number()
    assert (number.value, number.low, number.high) == pytest.approx((10, 10 - 5.553, 10 + 5.553), abs=1e-3)
    assert (number.n, number.variation) == (6, "about the fit")
    assert result.p(6.0) == pytest.approx(0.1161, abs=1e-4)
    assert result.p(6.0, within=4.0) == 1
    assert result.below(10.0) == pytest.approx(0.5)


def test_two_components_that_differ_in_the_centre_alone_are_symmetric():
    result = mixture([-1.0, 1.0], [0.5, 0.5], [0.5, 0.5])
    number = result.number()
    assert number.value == pytest.approx(0, abs=1e-8)
    assert number.low == pytest.approx(-number.high)
    assert result.below(number.high) == pytest.approx(0.975)


def test_an_end_is_never_further_than_one_component_reaches_at_98_percent():
    # t(0.99, 4) = 3.747
    assert mixture([0.0], [1.0], [1.0], level=1e-4).number().high == pytest.approx(3.747, abs=1e-3)


def test_without_a_degree_of_freedom_there_is_a_mean_and_no_interval():
    result = mixture([1.0, 3.0], [1.0, 1.0], [0.25, 0.75], degrees=0)
    assert result.value == 2.5
    assert not result.number().has_interval
    assert math.isnan(result.p())


def test_many_mixtures_are_taken_at_once():
    centres, errors, weights = np.zeros((3, 2)), np.ones((3, 2)), np.full((3, 2), 0.5)
    assert below(np.zeros(3), centres, errors, weights, 4) == pytest.approx([0.5] * 3)


UNIFORM = (np.arange(1000) + 0.5) / 1000
WIDE = np.sqrt(UNIFORM)  # the p value of the truth is below u in a share of u^2: the interval holds it too often
HALF = np.where(np.arange(1000) % 2, 1.0, math.nan)
ALIKE = (math.sqrt(1.32) - 1) / 2
FIRST, SECOND, UNKNOWN = [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]


def draw_weights(*weights):
    """Return the weights of each draw, which are the same for all draws of a kind."""
    return np.repeat(np.array(weights)[:, None], len(UNIFORM), axis=1)


@pytest.mark.parametrize(
    ("p", "draws", "weights", "level", "error"),
    [
        ([UNIFORM], [[1.0]], [1.0], 0.04, 0.02),
        ([WIDE], [[1.0]], [1.0], 0.2, 0.01),  # u^2 = 0.04
        # Each kind has its level where the draws distinguish them. If both kinds are alike, (u + u^2) / 2 = 0.04.
        ([UNIFORM, WIDE], [FIRST, SECOND], FIRST, 0.04, 0.02),
        ([UNIFORM, WIDE], [FIRST, SECOND], SECOND, 0.2, 0.02),
        ([UNIFORM, WIDE], [FIRST, SECOND], UNKNOWN, ALIKE, 0.02),
        ([UNIFORM, WIDE], [UNKNOWN, UNKNOWN], UNKNOWN, ALIKE, 0.02),
        # A draw without an interval does not count; if nothing is known of one kind, 0.04 remains.
        ([UNIFORM * HALF, WIDE * HALF], [FIRST, SECOND], SECOND, 0.2, 0.03),
        ([UNIFORM * math.nan, WIDE], [FIRST, SECOND], SECOND, 0.04, 0.0),
    ],
)
def test_an_interval_misses_as_often_as_stated(p, draws, weights, level, error):
    result = calibrated_level(np.stack(p), draw_weights(*draws), np.array(weights))
    assert result == pytest.approx(level, rel=error)


def test_the_draws_are_standard_normal_of_each_kind_and_always_the_same():
    errors = normal_errors(2, 3, 4)
    normal_errors.cache_clear()
    assert (normal_errors(2, 3, 4) == errors).all()
    assert errors.mean() == pytest.approx(0, abs=0.03)
    assert errors.std() == pytest.approx(1, abs=0.03)
    assert abs(np.corrcoef(errors[0].ravel(), errors[1].ravel())[0, 1]) < 0.06
