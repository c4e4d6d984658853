import math

import pytest

from analysis.stats import repeats
from analysis.stats.repeats import singles

SIX = [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_an_interval_covers_rounds_of_few_launches_and_launches_of_six():
    result = repeats.typical([SIX[::2] + SIX[1::2]])
    assert (result.n, result.variation) == (6, "between rounds")
    launches = repeats.typical(singles(SIX))
    assert launches.variation == "between launches"
    assert launches.interval == pytest.approx((1, 6))  # neighbours are alike: over all
    five = repeats.typical(singles(SIX[:5]))
    assert (five.n, five.has_interval) == (5, False)
    none = repeats.typical([])
    assert (math.isnan(none.value), none.n) == (True, 0)
    nine = repeats.typical(singles([1.0] * 4 + [2.0] * 5), 0.99)
    assert (nine.level, nine.interval) == (0.99, nine.ends(0.99))


def test_launches_in_rounds_cover_other_launches():
    result = repeats.typical([[1.0] * 3, [4.0] * 3])
    assert (result.value, result.n, result.variation) == (pytest.approx(2), 6, "between launches")
    assert result.low < 1 < 4 < result.high


def test_the_mean_of_rates_of_equal_work_is_harmonic_with_the_interval_of_their_times():
    # 10 images at 10 and 10 at 40 images/s take 1.25 s: 16 images/s
    assert repeats.harmonic_mean([[10, 40]]).value == pytest.approx(16)
    times = [0.1, 0.11, 0.12, 0.13, 0.14, 0.15]
    time, rate = (mean(singles(values)) for mean, values in
                  ((repeats.arithmetic_mean, times), (repeats.harmonic_mean, [1 / t for t in times])))  # fmt: skip
    assert (rate.value, rate.low, rate.high) == pytest.approx((8, 1 / time.high, 1 / time.low))
    # Its times may include zero.
    assert repeats.harmonic_mean(singles([1, 1, 1, 1, 1, 0.01])).high == math.inf


def test_a_symmetric_mean_has_students_interval_and_a_skewed_one_reaches_further_up():
    # s = sqrt(3.5), t(0.975, 4) = 2.7764
    assert repeats.arithmetic_mean(singles(SIX)).interval == pytest.approx((3.5 - 2.1205, 3.5 + 2.1205), rel=1e-4)
    # Of 24 rounds with the mean 10, s = 2.2842 and this skewness, Hall's transformation, solved by hand.
    for rounds, skewness in (([9, 9, 9, 9, 9, 15], 1.7889), ([7, 13, 7, 11, 11, 11], -0.3578)):
        low, high = repeats.arithmetic_mean([rounds * 4]).interval
        for end, t in ((low, 2.0687), (high, -2.0687)):  # t(0.975, 23)
            # Three rounds count as one: its ends are sqrt(3) t(0.975, 7) / t(0.975, 23) times as far.
            d, g = (10 - end) / (2.2842 / 8**0.5 * 2.3646 / 2.0687), skewness / 24**0.5
            assert d + g / 3 * d**2 + g**2 / 27 * d**3 + g / 6 == pytest.approx(t, rel=1e-3)
        assert (10 - low < high - 10) == (skewness > 0)


def test_from_three_launches_on_a_mean_covers_launches_and_is_never_narrower_than_over_the_rounds():
    alternating = [0.9, 1.1] * 4
    launches = [[1 + x for x in alternating], [3 + x for x in alternating], [5 + x for x in alternating]]
    result = repeats.arithmetic_mean(launches)
    half = 4.3027 * 2 / 3**0.5  # t(0.975, 2) of the means 2, 4 and 6
    assert (result.value, result.variation) == (pytest.approx(4), "between launches")
    assert result.interval == pytest.approx((4 - half, 4 + half), rel=1e-3)
    alike = repeats.arithmetic_mean([alternating] * 3)
    half = 2.0687 * 0.1 / 23**0.5  # t(0.975, 23) of 24 rounds
    assert alike.interval == pytest.approx((1 - half, 1 + half), rel=1e-3)
    # Their means are weighted with their rounds: 3 x 1 and 9 x 2 of 12 are 1.75, with 2 launches no interval.
    two = repeats.arithmetic_mean([[1.0] * 3, [2.0] * 9])
    assert (two.value, two.has_interval) == (1.75, False)


@pytest.mark.parametrize(
    ("rounds", "has_interval"),
    [((23,), False), ((24,), True), ((12, 11), False), ((12, 12), True), ((4, 4, 3), False), ((4, 4, 4), True)],
)
def test_rounds_have_an_interval_once_a_rare_disturbance_is_among_them(rounds, has_interval):
    assert repeats.arithmetic_mean([([1.0, 2.0] * 12)[:n] for n in rounds]).has_interval == has_interval


def test_rounds_that_wander_have_an_interval_of_three_times_their_span_at_most():
    result = repeats.arithmetic_mean([range(24)])  # they tell no more than one value
    assert (result.interval, result.variation) == ((11.5 - 3 * 11.5, 11.5 + 3 * 11.5), "between rounds")


def test_equal_rounds_have_their_value_as_interval():
    assert repeats.arithmetic_mean([[0.0] * 24]).interval == (0.0, 0.0)


def test_a_mean_of_no_or_impossible_values_is_refused():
    for values in ([], [1.0, math.nan], [math.inf]):
        with pytest.raises(ValueError, match="finite"):
            repeats.arithmetic_mean([values])


def test_the_interval_of_a_share_is_that_of_clopper_and_pearson():
    """All of n: the lower end is 0.025^(1/n). 7 of 10: (0.348, 0.933), as in tables."""
    assert repeats.proportion(25, 25).interval == pytest.approx((0.025 ** (1 / 25), 1))
    assert repeats.proportion(0, 10).interval == pytest.approx((0, 1 - 0.025 ** (1 / 10)))
    share = repeats.proportion(7, 10)
    assert (share.value, share.variation) == (0.7, "between cases")
    assert share.interval == pytest.approx((0.3475, 0.9333), abs=1e-4)
    assert repeats.proportion(0, 0).interval == (0, 1)
