import math

import pytest
from scipy.special import ndtri

from analysis.audit.findings import graded, speedup
from analysis.curves import noises
from analysis.thresholds import limit
from tests.helpers.tidy_rows import curve, row, table


def test_a_difference_is_graded_by_its_size_whatever_its_sign():
    grades = [graded(off) for off in (0.0, 0.0199, 0.02, -0.05, 0.10, -0.5)]
    assert grades == ["note", "note", "warning", "warning", "serious", "serious"]
    assert [graded(off, warning=0.2, serious=0.5) for off in (0.1, 0.2, 0.5)] == ["note", "warning", "serious"]


def test_the_margin_of_single_runs_follows_from_the_noise_that_is_assumed():
    """Five ratios of two, one-sided at 0.005 each."""
    margin = math.exp(-float(ndtri(0.005)) * 2**0.5 * limit("single_noise")) - 1
    assert margin == pytest.approx(limit("single_runs"), rel=0.01)


def test_a_ratio_has_the_rounding_of_both_and_the_noise_of_both():
    one, four = curve("images_per_s", {1: 100.0, 4: 390.0})
    result = speedup(four | {"kind": "stated"}, one | {"kind": "stated"}, None, None)
    assert result.value == pytest.approx(3.9)
    assert math.isnan(result.low)  # measured once: no noise is known
    values = ((1, 99), (1, 101), (4, 388), (4, 392))
    repeats = [row("images_per_s", value, ranks, repeat=i) for i, (ranks, value) in enumerate(values)]
    known = noises(table(*repeats))
    result = speedup(four, one, known.at(four), known.at(one))
    # Deviations of the means ln(101/99)/2 and ln(392/388)/2, 1.2 degrees: t is about 8.2.
    deviation = math.hypot(math.log(101 / 99) / 2, math.log(392 / 388) / 2)
    assert 3.9 * math.exp(6 * deviation) < result.high < 3.9 * math.exp(12.8 * deviation)
