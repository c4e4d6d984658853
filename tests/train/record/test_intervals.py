import math
import random
from statistics import NormalDist

import pytest
from hypothesis import given
from hypothesis import strategies as st

from train.record import intervals
from train.record.intervals import of_median, over_launches

# Hoefler and Belli's rule, and the usual tables: for n values the k-th smallest and largest, at 95 %.
ORDERS = {6: 1, 8: 1, 9: 2, 11: 2, 12: 3, 17: 5, 20: 6, 25: 8, 100: 40}


def _missed(n, k):
    """How often the k-th smallest and k-th largest of n values miss the median."""
    return 2 * sum(math.comb(n, i) for i in range(k)) / 2**n


@pytest.mark.parametrize(("n", "k"), ORDERS.items())
def test_the_order_statistics_are_those_of_the_sign_test(n, k):
    assert _missed(n, k) <= 0.05 < _missed(n, k + 1)
    found = intervals._order(n, 0.95)
    assert found == k if n < 12 else k < found < k + 1


def test_between_two_orders_it_interpolates_as_hettmansperger_and_sheather():
    # Of 12 values the third ones miss the median 158 times in 4096, the fourth ones 598 times.
    share = (0.05 - 158 / 4096) / (440 / 4096)
    between = 9 * share / (3 + 6 * share)
    assert intervals._order(12, 0.95) == pytest.approx(3 + between)
    found = of_median([float(i) for i in (5, 9, 1, 12, 3, 7, 10, 2, 8, 4, 11, 6)])
    assert (found.low, found.high) == (pytest.approx(3 + between), pytest.approx(10 - between))


def test_six_values_are_the_least():
    assert of_median([1.0, 2.0, 3.0, 4.0, 5.0]) is None
    found = of_median([3.0, 1.0, 2.0, 6.0, 4.0, 5.0])
    assert (found.value, found.low, found.high, found.n) == (3.5, 1.0, 6.0, 6)


def test_a_level_that_so_few_values_cannot_have_is_no_interval():
    six = [3.0, 1.0, 2.0, 6.0, 4.0, 5.0]  # the smallest and the largest miss the median once in 32
    assert of_median(six, 0.968).low == 1.0
    assert of_median(six, 0.97) is None
    assert over_launches([[value] for value in six], 0.97) is None


def test_values_that_alternate_are_no_reason_to_widen():
    values = [1.0, 2.0] * 12
    assert (of_median(values).low, of_median(values).high) == (1.0, 2.0)
    spread = [float(i if i % 2 else -i) for i in range(24)]  # neighbours are never alike
    seventh, eighth = sorted(spread)[6:8]  # orders of 97.7 % and 93.6 %
    assert seventh < of_median(spread).low < eighth


def test_a_disturbance_that_lasts_widens_the_interval():
    values = [1.0 + 0.001 * i for i in range(24)]
    mixed = random.Random(0).sample(values, 24)
    assert of_median(values).high - of_median(values).low > of_median(mixed).high - of_median(mixed).low


def test_over_two_groups_the_interval_reaches_over_those_of_both():
    order = (5, 9, 1, 12, 3, 7, 10, 2, 8, 4, 11, 6)
    slow, fast = ([start + 0.01 * (i - 1) for i in order] for start in (1.0, 1.5))
    values = [value for pair in zip(slow, fast, strict=True) for value in pair]
    found = of_median(values)
    assert found.value == pytest.approx((1.11 + 1.5) / 2)
    # Of 12 values the interval begins between the third and the fourth (above).
    between = 9 * (0.05 - 158 / 4096) / (440 / 4096) / (3 + 6 * (0.05 - 158 / 4096) / (440 / 4096))
    assert found.low == pytest.approx(1.02 + 0.01 * between)
    assert found.high == pytest.approx(1.59 - 0.01 * between)


@pytest.mark.parametrize(("disturbed", "grouped"), [(5, False), (6, True), (12, True), (18, True), (19, False)])
def test_two_groups_have_a_quarter_of_the_values_each(disturbed, grouped):
    values = [0.8 - 0.001 * i for i in range(disturbed)] + [1.4 + 0.001 * i for i in range(24 - disturbed)]
    groups = intervals.two_groups(values)
    assert groups == ((values[:disturbed], values[disturbed:]) if grouped else None)


def test_values_without_a_gap_are_one_group():
    uniform = [1.0 + 0.01 * i for i in range(24)]
    normal = [NormalDist().inv_cdf((i + 0.5) / 24) for i in range(24)]
    for values in (uniform, normal, [1.0] * 24):
        assert intervals.two_groups(values) is None
    assert intervals.two_groups([1.0] * 11 + [2.0] * 12) is None  # too few


@pytest.mark.parametrize(
    ("draw", "at_most"),
    [(lambda r: r.gauss(), 0.03), (lambda r: r.expovariate(1.0), 0.13)],
    ids=["normal", "exponential"],
)
def test_by_chance_few_samples_of_one_group_are_taken_for_two(draw, at_most):
    generator = random.Random(1)
    samples = [[draw(generator) for _ in range(24)] for _ in range(1000)]
    assert sum(intervals.two_groups(sample) is not None for sample in samples) / 1000 < at_most


@given(st.lists(st.floats(0.5, 2.0), min_size=6, max_size=60), st.floats(0.1, 10.0))
def test_the_interval_holds_the_median_and_scales_with_the_unit(values, factor):
    found = of_median(values)
    assert found.low <= found.value <= found.high
    scaled = of_median([factor * value for value in values])
    assert scaled.low == pytest.approx(factor * found.low)
    assert scaled.high == pytest.approx(factor * found.high)


def test_fewer_than_six_launches_are_spanned_and_half_their_difference_more():
    one, two = [1.0, 1.01, 0.99] * 4, [2.0, 2.01, 1.99] * 4
    apart = over_launches([one, two])
    assert (apart.low, apart.high) == (pytest.approx(0.5), pytest.approx(2.5))
    assert apart.n == 24
    few = over_launches([one, [2.0] * 5])  # five rounds are too few to speak for a launch
    assert (few.low, few.high) == (pytest.approx(0.99), pytest.approx(2.0))
    alike = over_launches([one, [value + 0.001 for value in one]])
    assert alike.half_width_fraction < 0.02


def test_with_six_launches_the_interval_is_of_their_medians():
    launches = [[value] * 12 for value in (1.0, 2.0, 3.0, 4.0, 5.0, 6.0)]
    found = over_launches(launches)
    assert (found.value, found.low, found.high, found.n) == (3.5, 1.0, 6.0, 6)
    assert over_launches([[1.0, 2.0], []]) is None


def test_looks_are_few_and_fixed():
    assert intervals.looks(11) == []
    assert intervals.looks(150) == [12, 17, 24, 34, 48, 68, 96, 136]


def test_precision_must_hold_at_two_looks_running():
    narrow = [1.0, 1.01, 0.99] * 8
    assert not intervals.precise(narrow[:12], 0.05)
    assert not intervals.precise(narrow[:16], 0.05)
    assert intervals.precise(narrow[:17], 0.05)
    wide = [0.5, 1.5, 1.0] * 4 + narrow[:5]
    assert not intervals.precise(wide, 0.05)
