import numpy as np
import pytest
from scipy.special import stdtr

from analysis.explain.studentized import below


def at(times, degrees, share):
    return float(below(np.array([times]), degrees, np.array([share]))[0])


def test_without_residuals_it_is_students_t():
    assert at(1.3, 4, 0.0) == pytest.approx(stdtr(4, 1.3))
    assert at(1.3, 4, 1e-9) == pytest.approx(stdtr(4, 1.3), abs=1e-4)


@pytest.mark.parametrize(("degrees", "tau"), [(2, 1.4099), (3, 1.6454), (4, 1.7566), (8, 1.8848), (18, 1.9326)])
def test_a_residual_alone_has_thompsons_tau(degrees, tau):
    """Of n = degrees + 1 values about their mean, at 5 % on both sides: t / sqrt(n - 2 + t^2) x sqrt(n - 1)."""
    assert at(tau, degrees, 1.0) == pytest.approx(0.975, abs=2e-4)
    assert at(-tau, degrees, 1.0) == pytest.approx(0.025, abs=2e-4)


def test_no_residual_is_longer_than_all_of_them_together():
    assert at(3**0.5 * 1.0001, 3, 1.0) == 1
    assert at(-0.999, 1, 1.0) == 0.5  # with one degree of freedom it is 1 or -1
    assert at(1.001, 1, 1.0) == 1


@pytest.mark.parametrize("degrees", [1, 2, 5])
@pytest.mark.parametrize("share", [0.2, 0.49, 0.51, 0.9])
def test_what_is_partly_a_residual_is_the_sum_of_both(degrees, share):
    rng = np.random.default_rng(0)
    residuals, apart = rng.normal(size=(200_000, degrees)), rng.normal(size=200_000)
    error = np.sqrt(share) * residuals[:, 0] + np.sqrt(1 - share) * apart
    drawn = error / np.sqrt((residuals**2).mean(axis=1))
    for times in (-1.0, 0.3, 2.0):
        assert at(times, degrees, share) == pytest.approx((drawn < times).mean(), abs=4e-3)
