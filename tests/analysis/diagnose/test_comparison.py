from dataclasses import replace

import pytest

from analysis.diagnose.comparison import answer, comparisons, report, table
from tests.helpers.diagnosis_curves import ONE_NODE, TWO_NODES, arm, paired_windows, without_gradient_times

SAME = [paired_windows(alone=1.0 + 0.1 * k) for k in range(6)]  # the machine drifts, with all arms of a repeat
ALIKE = [paired_windows()] * 6


def compare(base, other, **changes):
    """Return the comparison of arm "mwms" with "horovod"."""
    curve, splits = arm("mwms", other)
    [comparison] = comparisons([arm("horovod", base, is_base=True), (replace(curve, **changes), splits)])
    return comparison


def values(compared_arm):
    return {name: number.value for name, number in compared_arm.parts_longer_s.items()}


@pytest.mark.parametrize("part", ["slower", "waiting", "exchange"])
def test_what_makes_an_arm_slower_is_found_in_its_part_alone(part):
    [other] = compare(SAME, [paired_windows(alone=1.0 + 0.1 * k, **{part: 0.3}) for k in range(6)]).others
    assert (*other.longer_s.interval, other.longer_s.value, other.longer_s.n) == pytest.approx((0.3, 0.3, 0.3, 6))
    expected = dict.fromkeys(("alone", "slower", "waiting", "exchange", "rest"), 0.0) | {part: 0.3}
    assert values(other) == pytest.approx(expected)
    assert other.differs
    assert other.reasons == [part]


def test_two_reasons_that_cannot_be_distinguished_are_both_named():
    mixed = [paired_windows(exchange=0.2 + 0.01 * (-1) ** k, slower=0.2) for k in range(12)]
    [other] = compare([paired_windows()] * 12, mixed).others
    assert {*other.reasons} == {"exchange", "slower"}


def test_a_repeat_that_one_arm_lacks_is_left_out():
    long = [paired_windows(alone=1.0 + 0.1 * k, exchange=0.3) for k in range(7)]
    curve, [base, split] = arm("b", long)
    split = replace(split, launches=[split.launches[0][1:]])  # repeats 1 to 6 of it, 0 to 5 of the first
    [result] = comparisons([arm("a", SAME, is_base=True), (curve, [base, split])])
    [other] = result.others
    assert (other.longer_s.value, other.longer_s.n) == (pytest.approx(0.3), 5)


def test_where_one_arm_does_not_separate_the_parts_they_are_one():
    separated, together = [paired_windows(exchange=0.1)] * 6, [paired_windows(exchange=0.3)] * 6
    [other] = compare(separated, without_gradient_times(together)).others
    assert values(other) == pytest.approx({"alone": 0.0, "slower_or_exchange": 0.2, "rest": 0.0})
    assert other.reasons == ["slower_or_exchange"]


def test_curves_without_arms_and_single_arms_are_not_compared():
    curve, splits = arm("a", SAME)
    assert comparisons([(curve, splits)]) == []
    assert comparisons([(curve, splits), arm("b", SAME)]) == []  # without a base
    curve = replace(curve, is_base=True)
    assert comparisons([(curve, splits), (replace(curve, arm="", arms=""), splits)]) == []
    assert comparisons([(curve, splits), (replace(curve, arms="another comparison"), splits)]) == []


def test_arms_are_compared_on_as_many_nodes_only():
    [result] = comparisons([arm("b", SAME, is_base=True), arm("a", SAME)])
    assert (result.nodes, [curve.arm for curve, _ in result.arms]) == (TWO_NODES.nodes, ["b", "a"])  # the base first
    assert all(split.point != ONE_NODE for _, split in result.arms)


LONGER = [paired_windows(exchange=0.3 + 0.01 * (-1) ** k) for k in range(6)]  # t(0.975, 4) x 0.011 / sqrt 6: 12 ms
UNSURE = [paired_windows(exchange=0.125 * (-1) ** k) for k in range(6)]


@pytest.mark.parametrize(
    ("base", "other", "sentence"),
    [
        (ALIKE, LONGER, "ms longer than with horovod. Most of it: exposed exchange, 300 (288 to 312) ms longer."),
        (LONGER, ALIKE, "300 (288 to 312) ms shorter than with horovod. Most of it: exposed exchange, 300 (288"),
        (ALIKE, UNSURE, "not decided whether a step is longer or shorter than with horovod: 0 (-155 to 155) ms, of"),
        (ALIKE[:3], LONGER[:3], "303 ms longer than with horovod, on average over 3 repeats. Fewer than 6 repeats"),
    ],
)
def test_the_text_says_by_how_much_a_step_is_longer_and_why(base, other, sentence):
    assert sentence in answer(compare(base, other)).sentences[0]


def test_the_text_says_what_the_records_do_not_show():
    asynchronous = [
        replace(paired, arms={arm: replace(times, synchronous=False) for arm, times in paired.arms.items()})
        for paired in [paired_windows(exchange=0.25)] * 6
    ]
    compared_arms = {
        "alike": compare(ALIKE, ALIKE),
        "overlapped": compare(ALIKE, ALIKE, flat=False),
        "asynchronous": compare(ALIKE, asynchronous),
        "together": compare(ALIKE, without_gradient_times(ALIKE)),
        "servers": compare(ALIKE, ALIKE, servers="+2 cores for servers"),
    }
    notes = {
        "still computed": {"overlapped"},
        "not synchronous SGD": {"asynchronous"},
        "do not have the time at which gradients were ready": {"together"},
        "+2 cores for servers": {"servers"},
        "what other processes took of the cores is in slower computing and in waiting": {*compared_arms},
    }
    texts = {name: " ".join(answer(comparison).sentences) for name, comparison in compared_arms.items()}
    for sentence, expected in notes.items():
        assert {name for name, text in texts.items() if sentence in text} == expected
    rows = table(compared_arms["asynchronous"]).splitlines()
    assert " none " in next(line for line in rows if line.startswith("mwms "))
    assert "not known" in report(compared_arms["together"])
