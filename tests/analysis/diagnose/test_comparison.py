import math
from dataclasses import replace

import numpy as np
import pytest

from analysis.diagnose.comparison import comparisons
from analysis.diagnose.turns import Measured
from tests.helpers.steps_apart import ONE, TWO, arm, turn

SAME = [turn(alone=1.0 + 0.1 * k) for k in range(6)]  # the machine drifts, with all arms of a repeat


def compared(first, *others):
    """The only comparison of arms "a", "b", ... with these turns."""
    named = [arm(name, turns, name == "a") for name, turns in zip("abc", (first, *others), strict=False)]
    [found] = comparisons(named)
    return found


@pytest.mark.parametrize("part", ["slower", "waiting", "exchange"])
def test_what_makes_an_arm_slower_is_found_in_its_part_alone(part):
    [other] = compared(SAME, [turn(alone=1.0 + 0.1 * k, **{part: 0.3}) for k in range(6)]).others
    longer = other.longer
    assert (longer.value, longer.low, longer.high, longer.n) == pytest.approx((0.3, 0.3, 0.3, 6))
    assert {name: number.value for name, number in other.parts.items()} == pytest.approx(
        {"alone": 0.0, "slower": 0.0, "waiting": 0.0, "exchange": 0.0, "rest": 0.0} | {part: 0.3}
    )
    assert other.differs
    assert other.reasons == [part]


def test_an_arm_that_is_faster_has_its_reason_too():
    slow = [turn(exchange=0.4, waiting=0.1)] * 6
    [other] = compared(slow, [turn(exchange=0.1, waiting=0.1)] * 6).others
    assert other.longer.value == pytest.approx(-0.3)
    assert other.reasons == ["exchange"]


def test_two_reasons_that_cannot_be_told_apart_are_both_named():
    mixed = [turn(exchange=0.2 + 0.01 * (-1) ** k, slower=0.2) for k in range(12)]
    [other] = compared([turn()] * 12, mixed).others
    assert {*other.reasons} == {"exchange", "slower"}


def test_a_repeat_that_one_arm_lacks_is_left_out():
    long = [turn(alone=1.0 + 0.1 * k, exchange=0.3) for k in range(7)]
    curve, [base, split] = arm("b", long)
    split = replace(split, launches=[split.launches[0][1:]])  # repeats 1 to 6 of it, 0 to 5 of the first
    [found] = comparisons([arm("a", SAME, is_base=True), (curve, [base, split])])
    [other] = found.others
    assert (other.longer.value, other.longer.n) == (pytest.approx(0.3), 5)


def test_few_repeats_decide_nothing():
    [other] = compared(SAME[:5], [turn(alone=1.0 + 0.1 * k, exchange=0.5) for k in range(5)]).others
    assert math.isnan(other.longer.low)
    assert not other.differs
    assert other.reasons == ()


def test_where_one_arm_cannot_tell_the_parts_apart_they_are_one():
    untold = [
        replace(one, arms={p: Measured(of.window_s, of.steps_s, None, None, None) for p, of in one.arms.items()})
        for one in [turn(exchange=0.3)] * 6
    ]
    [other] = compared([turn(exchange=0.1)] * 6, untold).others
    assert {name: number.value for name, number in other.parts.items()} == pytest.approx(
        {"alone": 0.0, "slower_or_exchange": 0.2, "rest": 0.0}
    )
    assert other.reasons == ["slower_or_exchange"]


def test_curves_without_arms_and_single_arms_are_not_compared():
    one, of = arm("a", SAME)
    assert comparisons([(one, of)]) == []
    assert comparisons([(one, of), arm("b", SAME)]) == []  # without a base
    one = replace(one, is_base=True)
    assert comparisons([(one, of), (replace(one, arm="", arms=""), of)]) == []
    assert comparisons([(one, of), (replace(one, arms="another comparison"), of)]) == []


def test_arms_are_compared_on_as_many_nodes_only():
    [found] = comparisons([arm("b", SAME, is_base=True), arm("a", SAME)])
    assert (found.nodes, [curve.arm for curve, _ in found.arms]) == (TWO.nodes, ["b", "a"])  # the base first
    assert all(split.point != ONE for _, split in found.arms)


@pytest.mark.slow
def test_of_equal_arms_a_difference_is_seldom_alleged_and_one_of_two_deviations_is_found():
    """Steps of 1 s scatter by 0.05 s. Of six repeats the interval is from the smallest to the largest: 96.9 %."""

    def differs(more, seed):
        random = np.random.default_rng(seed)
        both = [[turn(exchange=0.5 + more * n + random.normal(0, 0.05)) for _ in range(6)] for n in range(2)]
        return compared(*both).others[0].differs

    assert sum(differs(0.0, seed) for seed in range(200)) <= 12
    assert sum(differs(0.2, seed) for seed in range(200)) >= 180
