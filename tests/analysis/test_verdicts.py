import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis import verdicts
from analysis.metrics import Estimate
from analysis.verdicts import Limits, between, judge, of_estimate, of_launches, unknown


@pytest.mark.parametrize(
    ("low", "high", "verdict"),
    [
        (0.95, 0.97, "supported"),
        (0.93, 0.97, "not decidable"),  # across the limit
        (0.90, 0.93, "contradicted"),
        (0.90, 0.94, "not decidable"),  # the limit itself is allowed
        (-math.inf, math.inf, "not decidable"),
        (math.nan, math.nan, "not decidable"),
    ],
)
def test_where_a_rounded_number_can_be_decides(low, high, verdict):
    assert judge(between(0.94, low, high), Limits(low=0.94)) == verdict


def test_a_strict_limit_is_not_allowed_itself():
    assert judge(between(1, 1, 1), Limits(low=1)) == "supported"
    assert judge(between(1, 1, 1), Limits(low=1, strict=True)) == "contradicted"


def test_a_failure_to_reject_supports_nothing():
    # Student's t with 4 degrees: 2.776 at 95 %, 2.132 at 90 %
    around_one = of_estimate(Estimate(1.0, 0.04, 4, 5))  # 0.915 to 1.085 at 90 %: a difference of 8 % is possible
    assert judge(around_one, Limits(0.95, 1.05)) == "not decidable"
    assert judge(of_estimate(Estimate(1.0, 0.02, 4, 5)), Limits(0.95, 1.05)) == "supported"  # 0.957 to 1.043
    assert judge(of_estimate(Estimate(1.1, 0.02, 4, 5)), Limits(0.95, 1.05)) == "not decidable"  # 1.044 at 95 %
    assert judge(of_estimate(Estimate(1.1, 0.015, 4, 5)), Limits(0.95, 1.05)) == "contradicted"  # 1.058


def test_a_margin_supports_but_does_not_excuse():
    limits, same = Limits(high=1.0), Limits(high=1.05)
    assert judge(between(1.01, 0.99, 1.03), limits, same) == "supported"
    assert judge(between(1.01, 0.97, 1.06), limits, same) == "not decidable"
    assert judge(between(1.02, 1.01, 1.03), limits, same) == "contradicted"


def test_p_values_are_those_of_students_t():
    # 0.1 / 0.05 = 2: one side of t with 10 degrees beyond 2 is 0.0367, two sides 0.0734
    verdict, p = verdicts.p_value(of_estimate(Estimate(0.1, 0.05, 10, 11)), Limits(low=0.0))
    assert (verdict, p) == ("supported", pytest.approx(0.0367, abs=1e-4))
    verdict, p = verdicts.p_value(of_estimate(Estimate(0.1, 0.05, 10, 11)), Limits(high=0.0))
    assert (verdict, p) == ("contradicted", pytest.approx(0.0734, abs=1e-4))


def test_six_values_have_no_interval_above_their_level():
    six = of_launches(1.05, [[1.02, 1.03, 1.04, 1.06, 1.07, 1.08]])
    assert (six.low, six.high) == (1.02, 1.08)  # smallest and largest: 1 - 2 / 64
    assert all(math.isnan(end) for end in six.ends(0.97))
    assert verdicts.p_value(six, Limits(high=1.0)) == ("contradicted", pytest.approx(2 / 64))


def test_holm_worked_by_hand():
    # 0.01 x 4, 0.02 x 3, 0.03 x 2 = 0.06, and 0.04, which is not below the one before
    assert verdicts.adjust([0.04, 0.01, 0.03, 0.02]) == pytest.approx([0.06, 0.04, 0.06, 0.06])
    found = [("contradicted", 0.04), ("supported", 0.01), ("contradicted", 0.9)]
    assert verdicts.holm(found) == ["not decidable", "supported", "not decidable"]


@given(st.lists(st.floats(0, 1), min_size=1, max_size=20))
def test_correction_never_decides_more(p_values):
    adjusted = verdicts.adjust(p_values)
    assert all(p <= q <= 1 for p, q in zip(p_values, adjusted, strict=True))
    assert max(adjusted) <= min(1, len(p_values) * max(p_values))


@pytest.mark.parametrize(
    ("found", "need", "verdict"),
    [
        (["supported", "supported"], None, "supported"),
        (["supported", "not decidable"], None, "not decidable"),
        (["contradicted", "not decidable"], None, "contradicted"),
        (["contradicted", "supported"], 1, "supported"),
        (["contradicted", "contradicted"], 1, "contradicted"),
        (["supported", "supported", "contradicted"], 2, "supported"),
        (["contradicted", "not decidable", "contradicted"], 2, "contradicted"),
    ],
)
def test_a_sentence_about_several_numbers(found, need, verdict):
    assert verdicts.together(found, need) == verdict


def test_as_json_has_null_for_what_is_not_known():
    assert unknown(2.0).as_json() == {"value": 2.0, "low": None, "high": None, "level": None, "n": 1}
    assert between(2.0, 1.5, 2.5, 3).as_json() == {"value": 2.0, "low": 1.5, "high": 2.5, "level": 0.95, "n": 3}
