import math

import pytest
from scipy.special import ndtri

from analysis.audit.findings import efficiency, graded, outside, point_label, point_location, reason, severity, speedup
from analysis.curves import noises
from analysis.stats import between, unknown
from analysis.stats.verdict import Bounds
from analysis.thresholds import limit
from tests.helpers.tidy_rows import curve, row, table


def test_where_an_interval_is_known_it_decides_and_else_the_value():
    numbers = [between(1.1, 1.05, 1.15), between(1.1, 0.99, 1.2), unknown(1.1), unknown(0.9)]
    assert outside(numbers, Bounds(high=1.0)) == [True, False, True, False]


@pytest.mark.parametrize(
    ("of", "off", "found"),
    [
        (between(1.3, 1.2, 1.4), 0.3, "serious"),
        (between(1.05, 1.04, 1.06), 0.05, "warning"),
        (unknown(1.19), 0.19, "note"),  # noise alone may be so large
        (unknown(1.21), 0.21, "warning"),
        (unknown(1.3), 0.3, "serious"),
    ],
)
def test_how_bad_it_is(of, off, found):
    assert severity(of, off) == found
    assert severity(of, off, "warning") == ("warning" if found == "serious" else found)


def test_without_an_interval_it_is_reported_what_that_means():
    assert reason(between(1.3, 1.2, 1.4), 0.3, "the interval says so") == "the interval says so"
    assert reason(unknown(1.1), 0.1, "").startswith("this cannot be judged: each was measured once")
    assert reason(unknown(1.3), 0.3, "") == "each was measured once, but noise of 5% would explain 20% at most"


def test_the_margin_of_single_runs_follows_from_the_noise_that_is_assumed():
    """Five ratios of two, one-sided at 0.005 each."""
    margin = math.exp(-float(ndtri(0.005)) * 2**0.5 * limit("single_noise")) - 1
    assert margin == pytest.approx(limit("single_runs"), rel=0.01)


def test_a_ratio_has_the_rounding_of_both_and_the_noise_of_both():
    rows = curve("images_per_s", {1: 100.0, 4: 390.0}, kind="stated")
    noisy = noises(table(*curve("images_per_s", {1: 100.0, 4: 390.0})))
    result = speedup(rows[1], rows[0], noisy)
    assert result.value == pytest.approx(3.9)
    assert math.isnan(result.low)  # measured once: no noise is known
    repeats = [row("images_per_s", v, n, repeat=i) for n, vs in {1: (99, 101), 4: (388, 392)}.items()
               for i, v in enumerate(vs)]  # fmt: skip
    result = speedup({**rows[1], "kind": "measured"}, {**rows[0], "kind": "measured"}, noises(table(*repeats)))
    # Deviations of the means ln(101/99)/2 and ln(392/388)/2, 1.2 degrees: t is about 8.2.
    deviation = math.hypot(math.log(101 / 99) / 2, math.log(392 / 388) / 2)
    assert 3.9 * math.exp(6 * deviation) < result.high < 3.9 * math.exp(12.8 * deviation)


def test_an_efficiency_has_the_interval_of_its_speedup():
    result = efficiency(between(3.6, 3.2, 4.0), 4)
    assert (result.value, result.low, result.high) == pytest.approx((0.9, 0.8, 1.0))


@pytest.mark.parametrize(
    ("off", "severity"),
    [(0.0, "note"), (0.0199, "note"), (0.02, "warning"), (-0.05, "warning"), (0.10, "serious"), (-0.5, "serious")],
)
def test_a_difference_is_graded_by_its_size_whatever_its_sign(off, severity):
    assert graded(off) == severity


def test_a_rule_may_have_other_bounds():
    assert [graded(off, warning=0.2, serious=0.5) for off in (0.1, 0.2, 0.5)] == ["note", "warning", "serious"]


def test_a_point_is_called_by_what_is_known_of_it():
    assert point_label(row("images_per_s", 100, 4)) == "resnet50, imagenet, P100, batch 64, 4 ranks"
    assert point_label(row("images_per_s", 100, None, batch=None, gpu="")) == "resnet50, imagenet"
    assert point_location(row("images_per_s", 100, 1, model="")) == "figure 1: imagenet, P100, batch 64, 1 rank"
