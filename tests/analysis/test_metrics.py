import math

import pytest

from analysis import metrics


def test_formulas_worked_by_hand():
    assert metrics.efficiency(3.5, 8, base_ranks=2) == 0.875
    assert metrics.change_fraction(20, 5) == -0.75
    assert metrics.faster_fraction(319, 205) == pytest.approx(0.556, abs=0.0005)
    assert metrics.throughput(64, 10, 4.0) == 160
    assert metrics.per_rank(160.0, 4) == 40
    assert metrics.job_total(40.0, 4) == 160
    assert [metrics.hops(members) for members in (1, 2, 4)] == [0, 1, 1.5]
    assert metrics.bus_bandwidth(1e9, 0.5, 4) == 3e9


@pytest.mark.parametrize(
    ("ranks", "batch", "expected"),
    [
        ([1, 2, 4], [128, 128, 128], "global_batch"),
        ([1, 2, 4], [128, 128, 256], "batch_per_rank"),
        ([2, 2], [64, 64], "batch_per_rank"),
    ],
)
def test_what_a_curve_keeps(ranks, batch, expected):
    assert metrics.shared_batch(ranks, batch) == expected


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
    slope = metrics.per_doubling([1, 1, 2, 2], [1, math.exp(0.2), math.exp(0.7), math.exp(0.9)])
    assert slope.value == pytest.approx(math.exp(0.7) / 2)
    assert slope.standard_error == pytest.approx(slope.value * math.sqrt(0.02))
    assert (slope.degrees, slope.n) == (2, 2)
    assert metrics.per_doubling([1, 8], [5, 40]).value == pytest.approx(1)  # ideal scaling
    with pytest.raises(ValueError, match="two values of x"):
        metrics.per_doubling([2, 2], [1, 1])
