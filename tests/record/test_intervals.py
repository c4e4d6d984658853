import math
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from record import intervals
from record.intervals import Spread, launches_interval, median_interval

# Hoefler and Belli's rule, and the usual tables: for n values the k-th smallest and largest, at 95 %.
ORDERS = {6: 1, 8: 1, 9: 2, 11: 2, 12: 3, 17: 5, 20: 6, 25: 8, 100: 40}
SIX, TWELVE = (3, 1, 2, 6, 4, 5), (5, 9, 1, 12, 3, 7, 10, 2, 8, 4, 11, 6)
# Of 12 values the third ones miss the median 158 times in 4096, the fourth ones 598 times: as Hettmansperger and
# Sheather interpolate, the interval begins at this share of the way from the third to the fourth.
_SHARE = (0.05 - 158 / 4096) / (440 / 4096)
BETWEEN = 9 * _SHARE / (3 + 6 * _SHARE)


def ends(interval):
    return interval.low, interval.high


@pytest.mark.parametrize(("n", "k"), ORDERS.items())
def test_the_order_statistics_are_those_of_the_sign_test(n, k):
    # How often the k-th smallest and k-th largest of n values miss the median.
    missed, missed_next = (2 * sum(math.comb(n, i) for i in range(order)) / 2**n for order in (k, k + 1))
    assert missed <= 0.05 < missed_next
    alternating = sorted(range(1, n + 1), key=lambda value: min(value, n + 1 - value))  # below and above the median
    position = median_interval(alternating).low
    assert position == k if n < 12 else k < position < k + 1


def test_few_values_have_an_interval_only_at_levels_that_the_outermost_ones_reach():
    assert median_interval(SIX[:5]) is None
    result = median_interval(SIX)
    assert (result.value, *ends(result), result.n) == (3.5, 1, 6, 6)
    # The smallest and the largest of six miss the median once in 32.
    assert median_interval(SIX, 0.968).low == 1
    assert median_interval(SIX, 0.97) is None
    assert launches_interval([[value] for value in SIX], 0.97) is None


def test_values_that_alternate_are_no_reason_to_widen():
    assert ends(median_interval([1.0, 2.0] * 12)) == (1.0, 2.0)
    spread = [float(i if i % 2 else -i) for i in range(24)]  # neighbours are never alike
    seventh, eighth = sorted(spread)[6:8]  # orders of 97.7 % and 93.6 %
    assert seventh < median_interval(spread).low < eighth
    lasting = median_interval(sorted(spread))  # neighbours are alike: a disturbance that lasts
    assert lasting.low < seventh < -seventh < lasting.high


def test_the_interval_of_two_groups_spans_those_of_both():
    slow, fast = ([start + 0.01 * (i - 1) for i in TWELVE] for start in (1.0, 1.5))
    result = median_interval([value for pair in zip(slow, fast, strict=True) for value in pair])
    assert result.value == pytest.approx((1.11 + 1.5) / 2)
    assert ends(result) == pytest.approx((1.02 + 0.01 * BETWEEN, 1.59 - 0.01 * BETWEEN))


@pytest.mark.parametrize(("disturbed", "grouped"), [(5, False), (6, True), (12, True), (18, True), (19, False)])
def test_two_groups_have_a_quarter_of_the_values_each(disturbed, grouped):
    values = [0.8 - 0.001 * i for i in range(disturbed)] + [1.4 + 0.001 * i for i in range(24 - disturbed)]
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


@given(st.lists(st.floats(0.5, 2.0), min_size=6, max_size=60), st.floats(0.1, 10.0))
def test_the_interval_holds_the_median_and_scales_with_the_unit(values, factor):
    result = median_interval(values)
    assert result.low <= result.value <= result.high
    scaled = median_interval([factor * value for value in values])
    assert ends(scaled) == pytest.approx((factor * result.low, factor * result.high))


def logs(*launches):
    """Launches whose values have these logarithms."""
    return [[math.exp(value) for value in launch] for launch in launches]


def test_two_launches_have_the_interval_of_student_with_one_degree():
    # Medians 0 and 0.2: mean 0.1, variance 0.02; t of one degree 12.706, of the mean of two sqrt(0.02 / 2) = 0.1.
    result = launches_interval(logs([-0.001, 0.0, 0.001] * 2, [0.199, 0.2, 0.201] * 2))
    assert (result.variation, result.n, result.value) == ("between launches", 12, pytest.approx(math.exp(0.1)))
    assert [math.log(end) for end in ends(result)] == pytest.approx([0.1 - 1.2706, 0.1 + 1.2706], abs=1e-4)
    # Another launch: variance 0.02 (1 + 1 / 2).
    further = 12.706 * math.sqrt(0.03)
    assert [math.log(end) for end in result.another] == pytest.approx([0.1 - further, 0.1 + further], abs=1e-3)


def test_the_variance_between_launches_is_pooled_over_curves():
    still = [0.0] * 3
    # Variances 0.02 and 0.0001 of two launches each, whose rounds do not scatter: 0.01005, with two degrees.
    apart, close = logs(still, [0.2] * 3), logs(still, [math.sqrt(0.0002)] * 3)
    spread = intervals.launch_spread([apart, close, logs(still)])
    assert (spread.variance, spread.degrees) == (pytest.approx(0.01005), 2)
    half, centre = 4.30265 * math.sqrt(0.01005 / 2), math.sqrt(0.0002) / 2
    result = launches_interval(close, spread=spread)
    assert [math.log(end) for end in ends(result)] == pytest.approx([centre - half, centre + half], rel=1e-4)
    # The variance of these launches, 0.02, is larger than the pooled one: Student's t has its one degree, too.
    assert math.log(launches_interval(apart, spread=spread).high) == pytest.approx(0.1 + 12.7062 * 0.1, rel=1e-4)


def test_variance_that_rounds_explain_is_not_between_launches():
    # Rounds -0.1, 0, 0.1: distances 0.2 over 2 degrees, times sqrt(pi / 2): 0.12533; of a median of three
    # pi / 2 / 3 of its square, 0.0082247. The launches differ by less.
    rounds = [-0.1, 0.0, 0.1]
    assert intervals.launch_spread([logs(rounds, [value + 0.05 for value in rounds])]) == Spread(0.0, 1)
    far = intervals.launch_spread([logs(rounds, [value + 0.3 for value in rounds])])
    assert far.variance == pytest.approx(0.3**2 / 2 - 0.0082247, rel=1e-4)


def test_one_launch_covers_launches_only_where_the_differences_of_others_are_known():
    values = logs([-0.01, 0.0, 0.01] * 4)
    alone = launches_interval(values)
    assert (alone, alone.variation, alone.another) == (median_interval(values[0]), "between rounds", None)
    result = launches_interval(values, spread=Spread(0.0004, 4))
    # Distances 0.08 over 11 degrees, times sqrt(pi / 2): 0.0091151; of a median of twelve pi / 24 of its square.
    # Of the four degrees of the others two count: 4.30265.
    half = 4.30265 * math.sqrt(0.0004 + math.pi / 24 * 0.0091151**2)
    assert (result.variation, math.log(result.high)) == ("between launches", pytest.approx(half, rel=1e-4))
    assert math.log(result.another[1]) == pytest.approx(math.sqrt(2) * half, rel=1e-4)


@given(
    st.lists(st.lists(st.floats(0.5, 2.0), min_size=2, max_size=20), min_size=1, max_size=5),
    st.floats(0.0, 0.1),
    st.integers(0, 9),
)
def test_an_interval_over_launches_is_never_narrower_than_that_of_their_rounds(launches, variance, degrees):
    result = launches_interval(launches, spread=Spread(variance, degrees))
    rounds = median_interval([value for values in launches for value in values])
    if rounds is None:
        assert result is None
    else:
        assert result.low <= rounds.low <= rounds.high <= result.high
        assert result.another is None or result.another[0] <= result.low <= result.high <= result.another[1]


def test_launches_of_one_value_have_the_interval_of_their_median():
    result = launches_interval([[value] for value in SIX])
    assert (result.value, *ends(result), result.n, result.variation) == (3.5, 1, 6, 6, "between launches")
    assert launches_interval([[1.0], [2.0], [3.0]]) is None
    assert launches_interval([[1.0, 2.0], []]) is None
    # Differences have no logarithms: variance 0.02, mean 0.
    result = launches_interval([[-0.1, -0.1, -0.1], [0.1, 0.1, 0.1]])
    assert (result.value, result.high) == (pytest.approx(0.0), pytest.approx(1.2706, abs=1e-4))


def test_what_curves_have_in_common_counts_as_two_launches_more():
    # Three launches whose rounds do not scatter, with 1 % of variance between launches: 2 + 2 of the ten degrees.
    alike = [[1.0] * 4] * 3
    assert launches_interval(alike, spread=Spread(0.01**2, 10)).degrees == 4
    assert launches_interval(alike, spread=Spread(0.01**2, 3)).degrees == 3
    high = launches_interval(alike, spread=Spread(0.01**2, 10)).high
    assert math.log(high) == pytest.approx(2.77645 * 0.01 / math.sqrt(3), rel=1e-4)


def test_a_curve_is_precise_with_the_degrees_of_its_own_launches():
    # 1 % of variance between launches: Student's t with one degree 12.71, two 4.303, three 3.182, over the root of the
    # launches: 8.98, 2.48 and 1.59 %.
    alike, spread = [1.0, 1.0, 1.0, 1.0], Spread(0.01**2, 10)
    for launches, half in ((2, 0.0900), (3, 0.0249), (4, 0.0160)):
        assert intervals.is_precise([alike] * launches, half, spread)
        assert not intervals.is_precise([alike] * launches, 0.98 * half, spread)
    assert not intervals.is_precise([alike], 0.9, spread)  # too few values for an interval


# Percentage points of Student's t, two-sided: Abramowitz and Stegun 1964, table 26.10.
@pytest.mark.parametrize(("at", "t"), [((0.95, 1), 12.706), ((0.95, 6), 2.447), ((0.99, 5), 4.032)])
def test_the_quantiles_of_student_are_those_of_the_tables(at, t):
    assert intervals.student_quantile(*at) == pytest.approx(t, abs=6e-4)
