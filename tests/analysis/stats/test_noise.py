import math

import pytest

from analysis.stats.number import between, exact
from analysis.stats.student import Noise, pooled, with_noise


def test_squares_are_pooled_over_their_degrees_worked_by_hand():
    # (0.02 + 0.04) / (1 + 2) = 0.02; of a mean of two 0.01
    assert pooled([(0.02, 1), (0.04, 2)], 2, "a") == Noise(pytest.approx(0.1), 3, "a")
    assert pooled([]) is None


def test_the_noise_of_both_runs_widens_a_quotient():
    # Two groups, 0.01 each: degrees (1 + 1)^2 / (1/3 + 1/5) = 7.5; t(0.975, 7.5) = 2.333
    runs = [(Noise(0.01, 3, "4"), 1.0), (Noise(0.01, 5, "1"), -1.0)]
    wide = with_noise(between(2.0, 1.99, 2.01), runs)
    factor = math.exp(2.3334 * 0.01 * 2**0.5)
    assert (wide.low, wide.high) == pytest.approx((1.99 / factor, 2.01 * factor), rel=1e-5)
    assert wide.covers == "launches"
    assert math.isnan(with_noise(between(2.0, 1.99, 2.01), [(Noise(0.01, 3), 1.0), (None, -1.0)]).low)


def test_two_measurements_of_one_group_have_one_estimate_of_their_noise():
    # t(0.975, 3) = 3.182
    wide = with_noise(exact(2.0), [(Noise(0.01, 3), 1.0), (Noise(0.01, 3), -1.0)])
    assert wide.high == pytest.approx(2 * math.exp(3.1824 * 0.01 * 2**0.5), rel=1e-5)
