import math

import numpy as np
import pytest

from analysis.stats.mixture import Mixture, below


def mixture(centres, errors, weights, degrees=4, level=0.05):
    return Mixture(np.array(centres), np.array(errors), np.array(weights), degrees, degrees + 2, lambda: level)


def test_of_one_component_it_is_students_t():
    # t with 4 degrees: 2.776 at 97.5 %; beyond 2 on either side 0.1161
    found = mixture([10.0], [2.0], [1.0])
    number = found.number()
    assert (number.value, number.low, number.high) == pytest.approx((10, 10 - 5.553, 10 + 5.553), abs=1e-3)
    assert (number.n, number.covers) == (6, "fit")
    assert found.p(6.0) == pytest.approx(0.1161, abs=1e-4)
    assert found.p(6.0, within=4.0) == 1
    assert found.below(10.0) == pytest.approx(0.5)


def test_of_two_components_alike_in_all_but_the_centre_it_is_symmetric():
    found = mixture([-1.0, 1.0], [0.5, 0.5], [0.5, 0.5])
    number = found.number()
    assert number.value == pytest.approx(0, abs=1e-8)
    assert number.low == pytest.approx(-number.high)
    assert found.below(number.high) == pytest.approx(0.975)


def test_an_end_is_never_further_than_one_component_reaches_at_98_percent():
    # t(0.99, 4) = 3.747
    assert mixture([0.0], [1.0], [1.0], level=1e-4).number().high == pytest.approx(3.747, abs=1e-3)


def test_without_a_degree_of_freedom_there_is_a_mean_and_no_interval():
    found = mixture([1.0, 3.0], [1.0, 1.0], [0.25, 0.75], degrees=0)
    assert found.value == 2.5
    assert not found.number().has_interval
    assert math.isnan(found.p())


def test_many_mixtures_are_taken_at_once():
    centres, errors, weights = np.zeros((3, 2)), np.ones((3, 2)), np.full((3, 2), 0.5)
    assert below(np.zeros(3), centres, errors, weights, 4) == pytest.approx([0.5] * 3)
