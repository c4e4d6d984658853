import math

import pytest

from analysis.stats import repeats
from analysis.stats.repeats import singles

SIX = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_an_interval_covers_rounds_of_few_launches_and_launches_of_six():
    # the smallest and the largest of six values enclose the median with 1 - 2 / 64
    result = repeats.median([SIX])
    assert (result.value, result.low, result.high, result.n, result.variation) == (3.5, 1, 6, 6, "between rounds")
    assert all(math.isnan(end) for end in result.ends(0.97))
    assert repeats.median(singles(SIX)).variation == "between launches"
    assert repeats.median(singles(SIX)).interval == result.interval
    five = repeats.median(singles(SIX[:5]))
    assert (five.value, five.n, five.has_interval) == (3, 5, False)
    nine = repeats.median(singles([1.0] * 4 + [2.0] * 5), 0.99)
    assert (nine.level, nine.interval) == (0.99, nine.ends(0.99))


def test_launches_in_rounds_cover_other_launches():
    result = repeats.median([[1.0] * 3, [4.0] * 3])
    # Mean of the logarithms: log 2; variance (log 4)^2 / 2; Student's t of one degree 12.706.
    assert (result.value, result.n, result.variation) == (pytest.approx(2), 6, "between launches")
    assert result.high == pytest.approx(2 * math.exp(12.7062 * math.log(4) / 2), rel=1e-3)


def test_the_mean_of_rates_of_equal_work_is_harmonic_and_within_its_interval():
    # 10 images at 10 and 10 at 40 images/s take 1.25 s: 16 images/s
    assert repeats.harmonic_mean([[10, 40]]).value == pytest.approx(16)
    # five of six are 40: the median's interval has both ends, and the mean is in it
    result = repeats.harmonic_mean([[40, 40, 40, 40, 40, 10]])
    assert (result.low, result.high) == (10, 40)
    assert result.value == pytest.approx(6 / (5 / 40 + 1 / 10))
    # A mean far from the median widens its interval.
    result = repeats.arithmetic_mean([[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 100]])
    assert (result.value, result.low, result.high) == (9.25, 1, 9.25)


def test_a_mean_of_no_or_impossible_values_is_refused():
    for values in ([], [1.0, math.nan], [math.inf]):
        with pytest.raises(ValueError, match="finite"):
            repeats.arithmetic_mean([values])


def test_the_interval_of_a_share_is_that_of_clopper_and_pearson():
    """All of n: the lower end is 0.025^(1/n). 7 of 10: (0.348, 0.933), as in tables."""
    assert repeats.proportion(25, 25).interval == pytest.approx((0.025 ** (1 / 25), 1))
    assert repeats.proportion(0, 10).interval == pytest.approx((0, 1 - 0.025 ** (1 / 10)))
    assert repeats.proportion(7, 10).interval == pytest.approx((0.3475, 0.9333), abs=1e-4)
    assert repeats.proportion(0, 0).interval == (0, 1)
