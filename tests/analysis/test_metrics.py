import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import metrics
from analysis.metrics import Estimate

positive = st.floats(1e-3, 1e6)


def test_the_interval_of_three_repeats_is_students():
    e = metrics.estimate([10.0, 11.0, 12.0])
    # s = 1, so 1/sqrt(3); t(0.975, 2) = 4.3027 from the printed tables
    assert e.value == 11
    assert e.half_width == pytest.approx(4.3027 / math.sqrt(3), rel=1e-4)
    assert (e.low, e.high) == pytest.approx((11 - 2.4841, 11 + 2.4841), rel=1e-4)


def test_one_repeat_has_no_interval():
    e = metrics.estimate([10.0])
    assert e.n == 1
    assert math.isnan(e.low)
    assert math.isnan(e.high)


@pytest.mark.parametrize("values", [[], [1.0, math.nan], [math.inf]])
def test_no_or_impossible_values_are_refused(values):
    with pytest.raises(ValueError, match="finite"):
        metrics.estimate(values)


def test_relative_errors_of_a_ratio_add_in_quadrature():
    # 3 % and 4 % make 5 %; Welch-Satterthwaite: 0.05^4 / (0.03^4 / 4 + 0.04^4 / 4) = 4 * 625 / 337
    r = metrics.ratio(Estimate(200.0, 6.0, 4, 5), Estimate(100.0, 4.0, 4, 5))
    assert r.value == 2
    assert r.standard_error == pytest.approx(0.1)
    assert r.degrees == pytest.approx(2500 / 337)


def test_a_ratio_with_an_unknown_error_has_none():
    r = metrics.ratio(Estimate(200.0, 6.0, 4, 5), Estimate(100.0))
    assert r.value == 2
    assert r.n == 1
    assert math.isnan(r.half_width)


@pytest.mark.parametrize("bad", [0.0, -1.0])
def test_a_ratio_over_nothing_is_refused(bad):
    with pytest.raises(ValueError, match="positive"):
        metrics.ratio(Estimate(1.0), Estimate(bad))


def test_speedups_and_changes_worked_by_hand():
    assert metrics.speedup(66.25, 8.82) == pytest.approx(7.51, abs=0.005)
    assert metrics.speedup(metrics.rate(1, 101.92), metrics.rate(1, 193.45)) == pytest.approx(1.898, abs=0.0005)
    assert metrics.efficiency(7.0, 8) == 0.875
    assert metrics.efficiency(3.5, 8, base_ranks=2) == 0.875
    assert metrics.change_fraction(20, 5) == -0.75
    assert metrics.faster_fraction(319, 205) == pytest.approx(0.556, abs=0.0005)


@pytest.mark.parametrize(
    ("ranks", "batch", "kept"),
    [
        ([1, 2, 4], [32, 64, 128], "batch_per_rank"),
        ([1, 2, 4], [128, 128, 128], "global_batch"),
        ([1, 2, 4], [128, 128, 256], "batch_per_rank"),
        ([2, 2], [64, 64], "batch_per_rank"),
    ],
)
def test_what_a_curve_keeps(ranks, batch, kept):
    assert metrics.kept(ranks, batch) == kept


def test_rates_of_ranks_steps_and_links():
    assert metrics.throughput(64, 10, 4.0) == 160
    assert metrics.per_rank(160.0, 4) == 40
    assert metrics.whole_job(40.0, 4) == 160
    assert metrics.step_s(64, 160.0) == 0.4
    assert metrics.bandwidth(1e9, 0.5) == 2e9


@given(st.lists(positive, min_size=2, max_size=8), st.lists(positive, min_size=2, max_size=8))
def test_a_ratio_and_its_inverse_have_the_same_relative_error(a, b):
    one, other = metrics.estimate(a), metrics.estimate(b)
    there, back = metrics.ratio(one, other), metrics.ratio(other, one)
    assert there.value * back.value == pytest.approx(1)
    assert there.standard_error / there.value == pytest.approx(back.standard_error / back.value)


@given(positive, positive, st.integers(2, 4096))
def test_bus_bandwidth_lies_between_algorithm_bandwidth_and_twice_it(size, seconds, ranks):
    algorithm = metrics.bandwidth(size, seconds)
    assert algorithm * (1 - 1e-9) <= metrics.bus_bandwidth(size, seconds, ranks) < 2 * algorithm


@pytest.mark.parametrize(
    ("accuracies", "stable"),
    [
        ([0.5, 0.8, 0.895, 0.9, 0.891], 3),  # the best is 0.9, and from epoch 3 on all are within 0.01 of it
        ([0.5, 0.9, 0.85, 0.895, 0.9], 4),  # a drop after the first maximum: not stable yet
        ([0.5, 0.6, 0.7], 3),  # still rising
        ([0.9, 0.9], 1),
    ],
)
def test_accuracy_is_stable_from_the_epoch_after_the_last_that_is_too_low(accuracies, stable):
    assert metrics.epochs_to_stable(range(1, len(accuracies) + 1), accuracies) == stable


def test_the_slope_of_repeats_worked_by_hand():
    # ln: 0 and 0.2 at 1, 0.7 and 0.9 at 2: slope 0.7; residuals 0.1, so s^2 = 0.04 / 2 and Sxx = 1
    e = metrics.per_doubling([1, 1, 2, 2], [1, math.exp(0.2), math.exp(0.7), math.exp(0.9)])
    assert e.value == pytest.approx(math.exp(0.7) / 2)
    assert e.standard_error == pytest.approx(e.value * math.sqrt(0.02))
    assert (e.degrees, e.n) == (2, 2)
    with pytest.raises(ValueError, match="two sizes"):
        metrics.per_doubling([2, 2], [1, 1])


@given(st.floats(0.01, 1e4), st.lists(st.integers(0, 10), min_size=2, max_size=5, unique=True))
def test_ideal_scaling_keeps_everything_whatever_the_unit(scale, doublings):
    sizes = [2**k for k in sorted(doublings)]
    assert metrics.per_doubling(sizes, [scale * size for size in sizes]).value == pytest.approx(1)


def test_the_mean_of_rates_of_equal_work_is_harmonic_and_within_its_interval():
    # 10 images at 10 and 10 at 40 images/s take 1.25 s: 16 images/s
    assert metrics.harmonic_mean([[10, 40]]) == metrics.Statistic(pytest.approx(16), n=2)
    # five of six are 40: the median's interval has both ends, and the mean is in it
    e = metrics.harmonic_mean([[40, 40, 40, 40, 40, 10]])
    assert (e.low, e.high) == (10, 40)
    assert e.value == pytest.approx(6 / (5 / 40 + 1 / 10))
    assert e.as_json() == {"value": e.value, "low": 10, "high": 40, "level": 0.95, "n": 6}
    assert metrics.Statistic(2.0).as_json() == {"value": 2.0, "low": None, "high": None, "level": None, "n": 1}


def test_the_binomial_interval_is_that_of_clopper_and_pearson():
    """All of n: the lower end is 0.025^(1/n). 7 of 10: (0.348, 0.933), as in tables."""
    assert metrics.binomial(25, 25) == pytest.approx((0.025 ** (1 / 25), 1))
    assert metrics.binomial(0, 10) == pytest.approx((0, 1 - 0.025 ** (1 / 10)))
    assert metrics.binomial(7, 10) == pytest.approx((0.3475, 0.9333), abs=1e-4)


def test_hops_of_a_ring_worked_by_hand():
    assert [metrics.hops(members) for members in (1, 2, 4)] == [0, 1, 1.5]
