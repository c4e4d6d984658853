import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.stats import between, combined, common_variation, exact, from_ends, rounded, unknown
from analysis.stats.repeats import arithmetic_mean, proportion, singles, typical
from analysis.stats.student import exponential, student

finite = st.floats(-1e6, 1e6)
means = st.builds(student, finite, st.floats(1e-3, 1e3), st.integers(1, 50), st.just(5))
samples = st.lists(finite, min_size=6, max_size=30).map(singles)
shares = st.integers(0, 40).flatmap(lambda n: st.builds(proportion, st.integers(0, n), st.just(n)))
roundings = st.builds(lambda value, half: between(value, value - half, value + half), finite, st.floats(0, 10))
numbers = st.one_of(means, samples.map(typical), samples.map(arithmetic_mean), roundings)


@given(st.one_of(numbers, shares))
def test_the_value_is_between_the_ends(number):
    assert math.isnan(number.value) or number.low <= number.value <= number.high


@given(st.one_of(numbers, shares), st.floats(0.5, 0.999), st.floats(0.5, 0.999))
def test_a_higher_level_has_a_wider_interval(number, first, second):
    (low, high), (lower, higher) = number.ends(min(first, second)), number.ends(max(first, second))
    if not math.isnan(lower):  # so few values may have none at the higher level
        assert lower <= low
        assert high <= higher


@given(numbers, st.floats(-1e3, 1e3).filter(lambda factor: abs(factor) > 1e-3))
def test_scaling_scales_both_ends_and_is_undone(number, factor):
    scaled, over = number.scaled(factor), number.over(1 / abs(factor))
    assert (over.low, over.high) == pytest.approx((number.low * abs(factor), number.high * abs(factor)))
    assert over.standard_error == pytest.approx(scaled.standard_error, nan_ok=True)
    assert sorted((number.low * factor, number.high * factor)) == [scaled.low, scaled.high]
    back = scaled.scaled(1 / factor)
    assert (back.value, back.low, back.high) == pytest.approx((number.value, number.low, number.high), abs=1e-3)
    assert (back.n, back.variation, back.level) == (number.n, number.variation, number.level)


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (between(1.5389, 1.49, 1.5812), "1.539 (1.49 to 1.581)"),
        (unknown(1.5389), "1.539"),
        (exact(1.5389), "1.539"),
        (between(2.0, 2.0, math.inf), "2 or more"),
        (between(2.0, -math.inf, 2.0), "2 or less"),
        (typical([[0.25] * 6]), "0.25 (0.25 to 0.25)"),  # measured: that they agree is a result
        (from_ends(6.0, 5.0, math.nan, "about the fit"), "6 (5 or more)"),
    ],
)
def test_the_text_of_a_number(number, text):
    assert str(number) == text
    assert between(6.58, 5.0, 7.25).text(".2g", "s") == "6.6 s (5 to 7.2)"


def test_an_interval_of_one_level_has_no_ends_at_a_higher_one():
    number = from_ends(2.0, 1.5, 2.5, "about the fit")
    assert number.ends(0.9) == number.ends(0.95) == (1.5, 2.5)
    assert number.n == 1
    assert all(map(math.isnan, number.ends(0.99)))
    assert number.contains(2.5)
    assert not number.contains(2.6)
    assert not unknown(2.0).contains(2.0)


def test_what_follows_from_several_numbers_covers_the_least_of_them():
    launches, fit = student(1.0, 0.1, 3, 4), student(1.0, 0.1, 3, 4, "about the fit")
    assert common_variation([launches, fit]) == "about the fit"
    assert common_variation([launches, exact(2.0)]) == "between launches"
    assert common_variation([launches, unknown(2.0)]) == ""
    assert common_variation([]) == ""


def test_an_exponential_is_taken_end_by_end_and_positive_at_every_level():
    number = between(0.0, -1.0, 1.0).through(math.exp)
    assert (number.low, number.value, number.high) == pytest.approx((1 / math.e, 1, math.e))
    number = exponential(student(0.0, 1.0, 1, 2))
    assert 0 < number.ends(0.999)[0] < number.low < 1 < number.high < number.ends(0.9999)[1] < math.inf


def test_a_formula_of_rounded_numbers_is_between_the_ends():
    # 11 +- 0.5 and 5 +- 0.5: 1 - 5.5 / 10.5 to 1 - 4.5 / 11.5
    outcome = combined(lambda old, new: (old - new) / old, {"old": rounded(11, 0.5), "new": rounded(5, 0.5)})
    assert (outcome.low, outcome.value, outcome.high) == pytest.approx((5 / 10.5, 6 / 11, 7 / 11.5))
    assert (outcome.variation, outcome.level, outcome.n) == ("rounding", 1.0, 1)
    assert combined(lambda a, b: a + b, {"a": between(1, 0.5, 1.5, 3), "b": between(2, 1, 3, 5)}).n == 3
    outcome = combined(lambda a, b: a + b, {"a": rounded(1, 0.5), "b": unknown(2)})
    assert (outcome.value, outcome.variation, outcome.n) == (3, "", 1)
    assert math.isnan(outcome.low)
