import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.stats import between, exact, from_ends, unknown, verdict
from analysis.stats.student import student
from analysis.stats.verdict import Bounds, Verdict, judge

finite = st.floats(-1e6, 1e6)
numbers = st.builds(student, finite, st.floats(1e-3, 1e3), st.integers(1, 50), st.just(5))
bounds = st.builds(lambda low, width: Bounds(low, low + width), finite, st.floats(0, 1e4))


AT_LEAST, AT_MOST, NEAR_ONE = Bounds(low=0.94), Bounds(high=1.0), Bounds(0.95, 1.05)
INSIDE, BELOW, ABOVE = ("inside", "", False), ("outside", "", False), ("outside", "", True)
ACROSS = ("undecided", "across a bound", False)


@pytest.mark.parametrize(
    ("number", "bounds", "expected"),
    [
        # The interval of a rounded number decides.
        (between(0.94, 0.95, 0.97), [AT_LEAST], INSIDE),
        (between(0.94, 0.93, 0.97), [AT_LEAST], ACROSS),
        (between(0.94, 0.90, 0.93), [AT_LEAST], BELOW),
        (between(0.94, 0.90, 0.94), [AT_LEAST], ACROSS),  # the bound itself is allowed
        (between(0.94, -math.inf, math.inf), [AT_LEAST], ACROSS),
        (unknown(0.94), [AT_LEAST], ("undecided", "no interval", False)),
        (exact(1), [Bounds(low=1)], INSIDE),
        (exact(1), [Bounds(low=1, strict=True)], BELOW),
        (exact(1), [Bounds(high=1, strict=True)], ABOVE),
        # A failure to reject supports nothing. Student's t with 4 degrees: 2.776 at 95 %, 2.132 at 90 %
        (student(1.0, 0.04, 4, 5), [NEAR_ONE], ACROSS),  # 0.915 to 1.085: 8 % off is possible
        (student(1.0, 0.025, 4, 5), [NEAR_ONE], ACROSS),  # 0.947 to 1.053 at 90 %
        (student(1.0, 0.02, 4, 5), [NEAR_ONE], INSIDE),  # 0.957 to 1.043
        (student(1.1, 0.02, 4, 5), [NEAR_ONE], ACROSS),  # from 1.044 at 95 %
        (student(1.1, 0.015, 4, 5), [NEAR_ONE], ABOVE),  # from 1.058
        (student(0.9, 0.015, 4, 5), [NEAR_ONE], BELOW),
        # A margin can support a claim, but not save it from contradiction.
        (between(1.01, 0.99, 1.03), [AT_MOST, Bounds(high=1.05)], INSIDE),
        (between(1.01, 0.97, 1.06), [AT_MOST, Bounds(high=1.05)], ACROSS),
        (between(1.02, 1.01, 1.03), [AT_MOST, Bounds(high=1.05)], ABOVE),
        (from_ends(1.2, 1.1, 1.3, "between machines", level=0.9), [AT_MOST], ACROSS),  # at 95 % it has no interval
    ],
)
def test_a_number_is_within_bounds_outside_or_undecided(number, bounds, expected):
    result = judge(number, *bounds)
    assert (result.outcome, result.why, result.above) == expected
    assert math.isnan(result.p)


@pytest.mark.parametrize(
    ("bounds", "outcome"), [(AT_MOST, "outside"), (Bounds(low=1.0), "inside"), (Bounds(low=1.2), "undecided")]
)
def test_an_interval_of_one_level_is_judged_at_that_level(bounds, outcome):
    number = from_ends(1.2, 1.1, 1.3, "between machines", level=0.9)
    assert verdict.judge_at(number, bounds).outcome == outcome


def test_p_values_are_those_of_the_interval():
    # 0.1 / 0.05 = 2: one side of t with 10 degrees beyond 2 is 0.0367, two sides 0.0734
    result = verdict.leaning(student(0.1, 0.05, 10, 11), Bounds(low=0.0))
    assert (result.outcome, result.p) == ("inside", pytest.approx(0.0367, abs=1e-4))
    result = verdict.leaning(student(0.1, 0.05, 10, 11), Bounds(high=0.0))
    assert (result.outcome, result.p) == ("outside", pytest.approx(0.0734, abs=1e-4))
    # Two sides beyond 0.4 are 0.70: it leans to neither side.
    assert verdict.leaning(student(0.02, 0.05, 10, 11), Bounds(high=0.0)) == Verdict("undecided", ACROSS[1], p=1.0)
    assert verdict.leaning(unknown(1.0), Bounds(high=0.0)) == Verdict("undecided", "no interval", p=1.0)


def test_holm_worked_by_hand():
    # 0.01 x 4, 0.02 x 3, 0.03 x 2 = 0.06, and 0.04, which is not below the one before
    assert verdict.adjust([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    result = verdict.holm([Verdict("outside", p=0.05), Verdict("inside", p=0.01), Verdict("outside", p=0.9)])
    assert [(item.outcome, item.why, item.p) for item in result] == [
        ("undecided", "too many numbers", pytest.approx(0.1)),
        ("inside", "", pytest.approx(0.03)),
        ("undecided", "across a bound", pytest.approx(0.9)),
    ]


@given(st.lists(numbers, min_size=1, max_size=6), bounds)
def test_many_numbers_together_decide_no_more_than_each_alone(many, allowed):
    for number, result in zip(many, verdict.judge_all(many, allowed), strict=True):
        if result.outcome != "undecided":
            assert judge(number, allowed).outcome == result.outcome


@given(numbers, bounds)
def test_one_number_alone_is_judged_alike_with_and_without_correction(number, allowed):
    (result,) = verdict.judge_all([number], allowed)
    assert abs(result.p - verdict.ALPHA) < 1e-6 or replace(result, p=math.nan).outcome == judge(number, allowed).outcome


@given(numbers, bounds)
def test_a_verdict_is_the_same_in_the_mirror(number, allowed):
    there = judge(number, allowed)
    back = judge(number.scaled(-1), Bounds(-allowed.high, -allowed.low))
    assert there.outcome == back.outcome
    assert verdict.is_above(number, allowed.high) == (there.outcome == "outside" and there.above)
    assert there.outcome != "outside" or there.above != back.above


def test_a_value_is_allowed_that_floating_point_may_have_moved_by_a_part_in_a_thousand_million():
    assert Bounds(high=1e6).allow(1e6 + 5e-4)
    assert not Bounds(high=1e6).allow(1e6 + 2e-3)


@pytest.mark.parametrize(
    ("outcome", "above", "of_rates", "of_times"),
    [
        ("outside", True, "better", "worse"),
        ("outside", False, "worse", "better"),
        ("inside", False, "alike", "alike"),
        ("undecided", False, "not decidable", "not decidable"),
    ],
)
def test_a_larger_ratio_of_rates_is_better_and_of_times_worse(outcome, above, of_rates, of_times):
    judged = Verdict(outcome, above=above)
    assert (verdict.ratio_verdict(judged), verdict.ratio_verdict(judged, is_cost=True)) == (of_rates, of_times)


def test_a_sentence_about_several_numbers():
    inside, undecided, outside = map(Verdict, ("inside", "undecided", "outside"))
    assert verdict.together([inside, inside]) == inside
    assert verdict.together([inside, undecided]) == undecided
    assert verdict.together([undecided, outside]) == outside
