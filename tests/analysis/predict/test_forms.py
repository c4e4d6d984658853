import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import metrics
from analysis.predict import forms
from analysis.predict.points import Sizes, strong, weak
from tests.helpers.scaling_curves import curve

ONES = np.ones(5)


def seconds(name, of, ranks, batch=1.0):
    at = Sizes(np.asarray(ranks, float), np.full(len(ranks), batch))
    return forms.fit(name, of, np.ones(len(of.ranks))).seconds(at)


def test_the_step_finds_its_own_coefficients_within_and_between_nodes():
    """4 ranks a node. t(n) = 1 + 0.02 log2 n + 0.1 r(ranks of the node) + 0.3 r(nodes), r(m) = 2 (m - 1) / m."""

    def step_s(n):
        return 1 + 0.02 * math.log2(n) + 0.1 * metrics.hops(min(n, 4)) + 0.3 * metrics.hops(math.ceil(n / 4))

    of = curve(step_s, ranks_per_node=4.0)
    assert seconds("step", of, [64]) == pytest.approx([1 + 0.12 + 0.15 + 0.3 * 1.875])


def test_each_rival_finds_its_own_curve():
    assert seconds("logarithm", curve(lambda n: 2 + 0.1 * math.log2(n)), [64]) == pytest.approx([2.6])
    assert seconds("power law", curve(lambda n: 2 * n**0.25), [256]) == pytest.approx([8])
    assert seconds("server", curve(lambda n: 1 + 0.05 * math.log2(n) + 0.01 * n), [64]) == pytest.approx([1.94])


def test_compute_grows_with_the_batch_where_batches_vary():
    """Strong scaling of a global batch of 32: t = 0.5 + 0.25 b + 0.1 log2 n."""
    ranks = np.array([1.0, 2, 4, 8, 16])
    of = curve([0.5 + 0.25 * 32 / n + 0.1 * math.log2(n) for n in ranks], ranks, batch=32 / ranks)
    fits = forms.fits(of, np.ones(5))
    assert set(fits) == {"step", "logarithm", "server"}
    assert fits["logarithm"].seconds(strong(np.array([32.0]), 32)) == pytest.approx([0.5 + 0.25 + 0.5])
    assert fits["logarithm"].seconds(weak(of, np.array([2.0]))) == pytest.approx([0.5 + 8 + 0.1])


def test_an_exchange_hides_behind_a_step_that_was_measured_without_it():
    """t = (1 + C^3)^(1/3), C = 0.8 r(n): hardly visible on 2 ranks, 1.5 on many."""

    def step_s(n):
        return (1 + (0.8 * metrics.hops(n)) ** 3) ** (1 / 3)

    known, unknown = curve(step_s, compute_s=1.0), curve(step_s)
    truth = step_s(64)
    assert seconds("step", known, [64]) == pytest.approx([truth], rel=1e-6)
    assert abs(seconds("step", unknown, [64])[0] - truth) > 0.01


def test_the_variance_is_that_of_least_squares():
    """A constant alone, of equal points: the mean of 4 has a quarter of the variance of one."""
    of = curve([2.0] * 4, ranks=(1, 2, 4, 8))
    for name in ("step", "logarithm", "power law"):
        fit = forms.fit(name, of, np.ones(4))
        assert fit.variance(Sizes(np.array([64.0]), np.ones(1))) == pytest.approx([0.25])


def test_a_point_with_a_larger_error_counts_less():
    off = curve([1, 1, 1, 1, 2.0])
    trusted = forms.fit("logarithm", off, ONES).seconds(Sizes(np.array([16.0]), np.ones(1)))
    doubted = forms.fit("logarithm", off, np.array([1, 1, 1, 1, 10.0])).seconds(Sizes(np.array([16.0]), np.ones(1)))
    assert doubted[0] < trusted[0] - 0.2


@given(st.lists(st.floats(0.1, 10), min_size=5, max_size=5), st.sampled_from([1.0, 4.0, math.nan]))
def test_no_form_predicts_a_step_that_shrinks_or_a_time_of_nothing(times, per_node):
    of = curve(times, ranks_per_node=per_node)
    along = np.array([16.0, 32, 64, 128, 256])
    for fit in forms.fits(of, ONES).values():
        found = fit.seconds(Sizes(along, np.ones(5)))
        assert (found > 0).all()
        assert (np.diff(found) >= -1e-9 * found[:-1]).all()
