import math

import numpy as np
import pytest

from analysis.stats.mixture import Mixture, below, calibrated_level, normal_errors


def mixture(centres, errors, weights, degrees=4, level=0.05):
    return Mixture(np.array(centres), np.array(errors), np.array(weights), degrees, degrees + 2, lambda: level)


def test_of_one_component_it_is_students_t():
    # t with 4 degrees: 2.776 at 97.5 %; beyond 2 on either side 0.1161
    result = mixture([10.0], [2.0], [1.0])
    number = result.number()
    assert (number.value, number.low, number.high) == pytest.approx((10, 10 - 5.553, 10 + 5.553), abs=1e-3)
    assert (number.n, number.covers) == (6, "fit")
    assert result.p(6.0) == pytest.approx(0.1161, abs=1e-4)
    assert result.p(6.0, within=4.0) == 1
    assert result.below(10.0) == pytest.approx(0.5)


def test_of_two_components_alike_in_all_but_the_centre_it_is_symmetric():
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
FIRST, SECOND, UNKNOWN = [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]


def draw_weights(*weights):
    """The weights of each draw, the same in all draws of a kind."""
    return np.repeat(np.array(weights)[:, None], len(UNIFORM), axis=1)


def test_a_p_value_that_is_right_is_left_as_it_is():
    result = calibrated_level(UNIFORM[None], draw_weights([1.0]), np.array([1.0]))
    assert result == pytest.approx(0.04, abs=1e-3)


def test_an_interval_that_is_too_wide_becomes_narrower():
    # u^2 = 0.04
    result = calibrated_level(WIDE[None], draw_weights([1.0]), np.array([1.0]))
    assert result == pytest.approx(0.2, abs=2e-3)


@pytest.mark.parametrize(("weights", "level"), [(FIRST, 0.04), (SECOND, 0.2), (UNKNOWN, (math.sqrt(1.32) - 1) / 2)])
def test_each_kind_has_its_level_where_the_draws_tell_them_apart(weights, level):
    # Of two kinds alike (u + u^2) / 2 = 0.04.
    result = calibrated_level(np.stack([UNIFORM, WIDE]), draw_weights(FIRST, SECOND), np.array(weights))
    assert result == pytest.approx(level, rel=0.02)


def test_indistinguishable_kinds_miss_as_often_as_stated_in_the_mean():
    result = calibrated_level(np.stack([UNIFORM, WIDE]), draw_weights(UNKNOWN, UNKNOWN), np.array(UNKNOWN))
    assert (result + result**2) / 2 == pytest.approx(0.04, rel=0.02)


def test_a_draw_without_an_interval_does_not_count():
    p = np.stack([UNIFORM, WIDE])
    p[:, ::2] = math.nan
    result = calibrated_level(p, draw_weights(FIRST, SECOND), np.array(SECOND))
    assert result == pytest.approx(0.2, rel=0.03)  # of half as many draws
    p[0] = math.nan  # of one kind nothing is known
    assert calibrated_level(p, draw_weights(FIRST, SECOND), np.array(SECOND)) == 0.04


def test_the_draws_are_standard_normal_of_each_kind_and_always_the_same():
    errors = normal_errors(2, 3, 4)
    normal_errors.cache_clear()
    assert (normal_errors(2, 3, 4) == errors).all()
    assert errors.mean() == pytest.approx(0, abs=0.03)
    assert errors.std() == pytest.approx(1, abs=0.03)
    assert abs(np.corrcoef(errors[0].ravel(), errors[1].ravel())[0, 1]) < 0.06
