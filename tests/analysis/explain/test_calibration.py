import math

import numpy as np
import pytest

from analysis.explain import calibration

UNIFORM = (np.arange(1000) + 0.5) / 1000
WIDE = np.sqrt(UNIFORM)  # the p value of the truth is below u in a share of u^2: the interval holds it too often
FIRST, SECOND, UNKNOWN = [1.0, 0.0], [0.0, 1.0], [0.5, 0.5]


def of_draws(*weights):
    """The weights of each draw, the same in all draws of a kind."""
    return np.repeat(np.array(weights)[:, None], len(UNIFORM), axis=1)


def test_a_p_value_that_is_right_is_left_as_it_is():
    found = calibration.level(UNIFORM[None], of_draws([1.0]), np.array([1.0]))
    assert found == pytest.approx(0.04, abs=1e-3)


def test_an_interval_that_is_too_wide_becomes_narrower():
    # u^2 = 0.04
    found = calibration.level(WIDE[None], of_draws([1.0]), np.array([1.0]))
    assert found == pytest.approx(0.2, abs=2e-3)


@pytest.mark.parametrize(("weights", "level"), [(FIRST, 0.04), (SECOND, 0.2), (UNKNOWN, (math.sqrt(1.32) - 1) / 2)])
def test_each_kind_has_its_level_where_the_draws_tell_them_apart(weights, level):
    # Of two kinds alike (u + u^2) / 2 = 0.04.
    found = calibration.level(np.stack([UNIFORM, WIDE]), of_draws(FIRST, SECOND), np.array(weights))
    assert found == pytest.approx(level, rel=0.02)


def test_kinds_that_nothing_tells_apart_miss_as_often_as_they_say_in_the_mean():
    found = calibration.level(np.stack([UNIFORM, WIDE]), of_draws(UNKNOWN, UNKNOWN), np.array(UNKNOWN))
    assert (found + found**2) / 2 == pytest.approx(0.04, rel=0.02)


def test_a_draw_without_an_interval_does_not_count():
    p = np.stack([UNIFORM, WIDE])
    p[:, ::2] = math.nan
    found = calibration.level(p, of_draws(FIRST, SECOND), np.array(SECOND))
    assert found == pytest.approx(0.2, rel=0.03)  # of half as many draws
    p[0] = math.nan  # of one kind nothing is known
    assert calibration.level(p, of_draws(FIRST, SECOND), np.array(SECOND)) == 0.04


def test_the_draws_are_standard_normal_of_each_kind_and_always_the_same():
    errors = calibration.errors(2, 3, 4)
    calibration.errors.cache_clear()
    assert (calibration.errors(2, 3, 4) == errors).all()
    assert errors.mean() == pytest.approx(0, abs=0.03)
    assert errors.std() == pytest.approx(1, abs=0.03)
    assert abs(np.corrcoef(errors[0].ravel(), errors[1].ravel())[0, 1]) < 0.06
