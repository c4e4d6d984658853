import math

import pytest

from analysis import metrics


def test_formulas_worked_by_hand():
    assert metrics.speedup(36.0, 20.0) == 1.8
    assert metrics.efficiency(3.5, 8, base_ranks=2) == 0.875
    assert metrics.change_fraction(20, 5) == -0.75
    assert metrics.faster_fraction(319, 205) == pytest.approx(0.556, abs=0.0005)
    assert metrics.throughput(64, 10, 4.0) == 160
    assert metrics.per_rank(160.0, 4) == 40
    assert metrics.job_total(40.0, 4) == 160
    assert [metrics.hops(members) for members in (1, 2, 4)] == [0, 1, 1.5]
    assert metrics.bus_bandwidth(1e9, 0.5, 4) == 3e9
    assert metrics.step_s(64.0, 16.0) == 4
    assert metrics.joules_per_image(600.0, 200.0) == 3
    assert metrics.time_to_stable_s(100.0, 3.0, 12.0) == 25


def test_limits_worked_by_hand():
    # 1.5 x 4 bytes of a million parameters are 48 Mbit; 1.5 x 0.1 GB pass a link of 1 GB/s in 0.15 s.
    assert metrics.ring_allreduce_min_s(10**6, 4, 100.0) == pytest.approx(0.48)
    assert metrics.ring_allreduce_min_s(10**6, 4, math.nan) == 0
    assert metrics.link_limit(60, 1e8, 4, 1e9) == pytest.approx(400)
    assert metrics.operations_per_s(1000, 0.02) == pytest.approx(1e11)
    assert metrics.compute_limit(1e12, 2e10) == 50


def test_what_a_curve_keeps():
    assert metrics.shared_batch([1, 2, 4], [128, 128, 128]) == "global_batch"
    assert metrics.shared_batch([1, 2, 4], [128, 128, 256]) == "batch_per_rank"
    assert metrics.shared_batch([2, 2], [64, 64]) == "batch_per_rank"


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
    assert metrics.epochs_to_stable([1, 2, 3], [0.25, 0.75, 1.0], tolerance=0.25) == 2


def test_the_slope_of_repeats_worked_by_hand():
    # ln: 0 and 0.2 at 1, 0.7 and 0.9 at 2: slope 0.7; residuals 0.1, so s^2 = 0.04 / 2 and Sxx = 1
    slope = metrics.per_doubling([1, 1, 2, 2], [1, math.exp(0.2), math.exp(0.7), math.exp(0.9)])
    assert slope.value == pytest.approx(math.exp(0.7) / 2)
    assert slope.standard_error == pytest.approx(slope.value * math.sqrt(0.02))
    assert (slope.degrees, slope.n, slope.variation) == (2, 2, "about the fit")
    ideal = metrics.per_doubling([1, 8, 8], [5, 40, 40])
    assert (ideal.value, ideal.n) == (pytest.approx(1), 1)
    with pytest.raises(ValueError, match="two values of x"):
        metrics.per_doubling([2, 2], [1, 1])
