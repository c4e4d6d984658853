import itertools
import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad
from scipy.stats import halfcauchy, t

from record import intervals
from record.intervals import Turn, rate, speedup, typical

SIX = (0.05, -0.05, 0.03, -0.03, 0.01, -0.01)  # neighbours are not alike


def launches(*logs):
    """Rates by turn, of launches whose rounds have these logarithms."""
    return {Turn(f"r{i}", 0, j): math.exp(x) for i, rounds in enumerate(logs) for j, x in enumerate(rounds)}


def singles(rates):
    """Rates of launches of a single point, by repeat."""
    return {Turn("", 0, repeat): rate for repeat, rate in rates.items()}


def log_ends(interval, level=0.95):
    return [math.log(end) for end in interval.ends(level)]


def test_rates_are_compared_by_their_repeat_not_by_their_position():
    # The first launch of the point failed: 18 / 10, not 18 / 20.
    result = speedup(singles({1: 18.0, 2: 9.0}), singles({0: 20.0, 1: 10.0, 2: 5.0}))
    assert (result.value, result.n) == (pytest.approx(1.8), 2)
    assert intervals.paired(singles({1: 18.0, 2: 9.0}), singles({0: 20.0, 1: 10.0})) == singles({1: 1.8})
    assert speedup(singles({0: 1.0}), singles({1: 1.0})) is None
    assert rate({}) is None


@pytest.mark.parametrize(
    ("values", "centre"),
    [
        # The means of all pairs and the values: 0, 0.5, 1, 1, 1.5, 2, 5, 5.5, 6, 10.
        ((10.0, 0.0, 1.0, 2.0), 1.75),
        ((1.0, 2.0, 3.0, 4.0, 100.0), 3.0),  # eight of 15 means are at most 3
        ((0.0, 1.0, 100.0), 1.0),  # of three the median
        ((*[0.0] * 501, *[1.0] * 500), 0.0),  # and of more than a thousand; half of the means are 0.5
    ],
)
def test_a_launch_has_the_estimate_of_hodges_and_lehmann(values, centre):
    assert math.log(rate(launches(values)).value) == pytest.approx(centre)


_ROUNDS = st.lists(st.floats(-0.5, 0.5), min_size=1, max_size=8)


@given(st.lists(st.tuples(_ROUNDS, _ROUNDS), min_size=1, max_size=4))
def test_the_rates_of_two_points_give_their_ratio(rounds):
    above, below = launches(*(a for a, _ in rounds)), launches(*(b for _, b in rounds))
    result = speedup(above, below)
    assert result.value == pytest.approx(rate(above).value / rate(below).value)
    assert math.isnan(result.low) or result.low <= result.value <= result.high


def test_one_launch_has_the_interval_of_student_over_its_rounds():
    # Distances 0.36 over sqrt(12 11), times sqrt(pi / 2): 0.03927; an efficiency of 0.95. Three rounds count as one: of
    # four values t of 3 degrees, 3.1824.
    half = 3.1824 * 0.03927 / math.sqrt(0.95 * 4)
    result = speedup(launches([*SIX, *SIX]), launches([0.0] * 12))
    assert (result.n, result.variation, result.another) == (12, "between rounds", None)
    assert (result.value, log_ends(result)) == (pytest.approx(1.0), pytest.approx([-half, half], rel=1e-4))
    assert result.scatter == pytest.approx(0.03927, rel=1e-4)
    six = speedup(launches(SIX), launches([0.0] * 6))  # 12.706 x 0.041188 / sqrt(0.95 2) is beyond 3 x 0.05
    assert log_ends(six) == pytest.approx([-0.15, 0.15])
    # They hold the median in 1 - 2 / 2^6 = 0.969 of cases. At 0.99 t of one degree: 63.657 x 0.041188 / sqrt(0.95 2).
    assert log_ends(six, 0.99) == pytest.approx([-1.9021, 1.9021], rel=1e-4)
    # On either side by itself: three times 0.02, and 12.706 x sqrt(pi / 2) 0.07 / sqrt(6 5) / sqrt(0.95 2).
    lopsided = rate(launches((0.0, 0.0, 0.05, -0.02, 0.0, 0.0)))
    assert log_ends(lopsided) == pytest.approx([-0.06, 0.14765], rel=1e-4)
    # Twelve launches of single points are twelve values: t of 11 degrees, 2.2010, x 0.03927 / sqrt(0.95 12).
    twelve = rate(singles({i: math.exp(x) for i, x in enumerate([*SIX, *SIX])}))
    assert log_ends(twelve) == pytest.approx([-0.02560, 0.02560], rel=1e-3)
    assert typical([[math.exp(x)] for x in (*SIX, *SIX)]).interval == pytest.approx(twelve.interval)
    few = rate(launches(SIX[:5]))
    assert (math.isnan(few.low), few.half_width_fraction()) == (True, math.inf)
    assert rate(singles(dict(enumerate(SIX, 1)) | {2: 0.1, 4: 0.1, 6: 0.1})).variation == "between launches"


def test_neighbours_that_are_alike_widen_the_interval_of_rounds_until_there_is_none():
    alike = [x for x in (0.05, -0.05, 0.03, -0.03, 0.01, -0.01, 0.04, -0.04) for _ in range(3)]
    widths = [rate(launches(values)).half_width_fraction() for values in (alike, alike[::3] * 3)]
    assert widths[0] > 1.3 * widths[1]
    rising = [0.01 * i for i in range(24)]
    drifting = rate(launches(rising))
    assert (drifting.has_interval, drifting.no_interval) == (False, intervals.DRIFTS)
    assert rate(launches(rising, rising)).has_interval
    assert rate(singles({i: math.exp(x) for i, x in enumerate(rising)})).has_interval
    assert rate(launches(rising[:5])).no_interval == ""  # too few


def held(half, centres, rounds_variance, degrees, another=0, scale=0.06):
    """The probability of the mean of launches, or of another, within so much, by integration over all tau."""
    k, mean = len(centres), sum(centres) / len(centres)
    squares = sum((centre - mean) ** 2 for centre in centres)

    def density(tau):
        variance = tau**2 + rounds_variance
        return halfcauchy.pdf(tau, scale=scale) * variance ** (-(k - 1) / 2) * math.exp(-squares / 2 / variance)

    def within(tau):
        error = math.sqrt((tau**2 + rounds_variance) * (another + 1 / k))
        return density(tau) * (1 - 2 * t.sf(half / error, degrees))

    every = [0.0, 0.01, 0.05, 0.2, 1.0, 20.0]
    inside, whole = (sum(quad(f, low, high)[0] for low, high in itertools.pairwise(every)) for f in (within, density))
    return inside / whole


@pytest.mark.parametrize(("apart", "level"), [(0.0, 0.95), (0.1, 0.99), (0.3, 0.95)])
def test_launches_have_the_interval_of_a_half_cauchy_prior(apart, level):
    # Three launches of six rounds about 0.5: the scatter is that of one, 0.041188.
    result = rate(launches(*([0.5 + away + x for x in SIX] for away in (0.0, apart, -apart))))
    assert (result.value, result.variation) == (pytest.approx(math.exp(0.5)), "between launches")
    square = 0.041188**2 / 0.95 / 6
    low, high = log_ends(result, level)
    assert 0.5 - low == pytest.approx(high - 0.5)
    assert held(high - 0.5, (-apart, 0.0, apart), square, 15) == pytest.approx(level, abs=2e-3)
    other = math.log(result.another(level)[1]) - 0.5
    assert held(other, (-apart, 0.0, apart), square, 15, another=1) == pytest.approx(level, abs=3e-3)


@pytest.mark.parametrize(("sizes", "degrees"), [((3, 3, 3), 6), ((1, 4, 1), 3), ((1, 1, 1, 1, 2), 1)])
def test_launches_whose_rounds_are_equal_have_the_prior_of_their_deviation(sizes, degrees):
    centres = (-1.0, 0.0, 1.0, *[0.0] * (len(sizes) - 3))
    result = typical([[centre] * size for centre, size in zip(centres, sizes, strict=True)])
    assert result.low == pytest.approx(-result.high)
    scale = math.sqrt(2 / len(sizes))
    assert held(result.high, centres, 0.0, degrees, scale=scale) == pytest.approx(0.95, abs=3e-3)


def test_the_scatter_is_that_of_a_mean_distance_in_which_far_values_count_as_six_times_the_median():
    # Six distances of 0.01 and two of 0.06, over sqrt(8 7), times sqrt(pi / 2); two of 0.1 over sqrt(2 1).
    far = rate(launches((-0.01, 0.01, -0.01, 0.01, -0.01, 0.01, -1.0, 1.0)))
    assert (far.value, far.scatter) == (pytest.approx(1.0), pytest.approx(0.030147, rel=1e-4))
    assert rate(launches((0.0, 0.2))).scatter == pytest.approx(0.177245, rel=1e-4)
    assert typical([[0.0] * 3] * 3).interval == pytest.approx((0.0, 0.0), abs=1e-6)


@pytest.mark.parametrize(
    ("values", "dependence"),
    [
        # Ranks -3, -1, 1, 3: r = 5/20 and -6/20, too small by (1 + 3 r) / 4: 0.6875 and -0.05.
        ((1.0, 2.0, 3.0, 4.0), 1.6875 / 0.3125),
        # r = -7/20 and 6/20: -0.1 and 0.775, with the weights 2/3 and 1/3.
        ((4.0, 2.0, 3.0, 1.0), 1 + 2 * (-0.2 / 3 + 0.775 / 3)),
        ((4.0, 1.0, 3.0, 2.0), 1.0),  # r = -13/20 and 6/20: less than independent ones have
        ((1.0, 1.0, 1.0, 1.0), 1.0),
    ],
)
def test_the_dependence_of_neighbours_is_that_of_their_autocorrelations(values, dependence):
    assert intervals.dependence(values) == pytest.approx(dependence)


def test_what_widens_an_interval_is_known():
    alike = speedup(launches(SIX, SIX, SIX), launches(*[[0.0] * 6] * 3))
    apart = speedup(launches(SIX, [x + 0.3 for x in SIX], SIX), launches(*[[0.0] * 6] * 3))
    assert apart.rounds_share < 0.1 < 0.3 < alike.rounds_share < 1


def test_one_outlier_does_not_widen_the_interval_much():
    rounds = [0.3 + x for x in SIX]
    clean, struck = (typical([[math.exp(x) for x in values] for values in (rounds, rounds, last)])
                     for last in (rounds, [*rounds[:5], math.log(0.01)]))  # fmt: skip
    assert struck.value == pytest.approx(clean.value, rel=0.02)
    assert struck.half_width_fraction() < 1.6 * clean.half_width_fraction()


def test_the_interval_of_two_groups_spans_those_of_both():
    slow, fast = ([start + x for x in (*SIX, *SIX)] for start in (0.0, 0.5))
    result = rate(launches([x for pair in zip(slow, fast, strict=True) for x in pair]))
    # Each group: distances 0.36 over sqrt(12 11); of four values t of 3 degrees.
    half = 3.1824 * math.sqrt(math.pi / 2) * 0.36 / math.sqrt(132) / math.sqrt(0.95 * 4)
    assert log_ends(result) == pytest.approx([-half, 0.5 + half], rel=1e-3)


def test_differences_have_no_logarithms():
    result = typical([[-0.1, -0.2, -0.1], [0.1, 0.2, 0.1]])
    assert (result.value, result.low) == (pytest.approx(0.0), pytest.approx(-result.high))
    assert typical([[], []]) is None
    assert typical([[0.25], [1.0]]).value == pytest.approx(0.5)


@pytest.mark.parametrize(("disturbed", "grouped"), [(5, False), (6, True), (12, True), (18, True), (19, False)])
def test_two_groups_have_a_quarter_of_the_values_each(disturbed, grouped):
    values = [0.008 - 1e-5 * i for i in range(disturbed)] + [0.014 + 1e-5 * i for i in range(24 - disturbed)]
    assert intervals.two_groups(values) == ((values[:disturbed], values[disturbed:]) if grouped else None)


@pytest.mark.parametrize(
    "values",
    [
        [1.0 + 0.01 * i for i in range(24)],
        [NormalDist().inv_cdf((i + 0.5) / 24) for i in range(24)],
        [1.0] * 24,
        [1.0] * 11 + [2.0] * 12,  # too few
    ],
)
def test_values_without_a_gap_are_one_group(values):
    assert intervals.two_groups(values) is None


# Percentage points of Student's t, two-sided: Abramowitz and Stegun 1964, table 26.10.
@pytest.mark.parametrize(("at", "t"), [((0.95, 1), 12.706), ((0.95, 6), 2.447), ((0.99, 5), 4.032)])
def test_the_quantiles_of_student_are_those_of_the_tables(at, t):
    assert intervals.student_quantile(*at) == pytest.approx(t, abs=6e-4)
