from dataclasses import replace

from analysis.diagnose import comparison_words
from analysis.diagnose.comparison import comparisons
from analysis.diagnose.turns import Measured
from tests.helpers.steps_apart import arm, turn

ALIKE = [turn()] * 6


def said(first, other, **of_curve):
    """The report on arm "mwms" beside "horovod", on one line."""
    curve, splits = arm("mwms", other)
    [found] = comparisons([arm("horovod", first, is_base=True), (replace(curve, **of_curve), splits)])
    return comparison_words.report(found), " ".join(comparison_words.report(found).split())


def test_a_longer_step_is_told_with_the_part_that_makes_it_longer():
    _, words = said(ALIKE, [turn(exchange=0.25)] * 6)
    assert (
        "mwms: a step takes 250 (250 to 250) ms longer than with horovod. Most of it: exposed exchange, "
        "250 (250 to 250) ms longer." in words
    )


def test_a_shorter_step_is_told_with_its_interval_the_right_way_round():
    _, words = said([turn(exchange=0.3 + 0.01 * k) for k in range(6)], ALIKE)
    assert "mwms: a step takes 325 (300 to 350) ms shorter than with horovod" in words


def test_no_difference_is_told_as_none():
    _, words = said(ALIKE, [turn(exchange=0.125 * (-1) ** k) for k in range(6)])
    assert "mwms: no difference to horovod is shown: 0 (-125 to 125) ms a step" in words
    assert "Most of it" not in words


def test_few_repeats_give_no_verdict():
    _, words = said(ALIKE[:3], [turn(exchange=0.5)] * 3)
    assert "500 ms longer than with horovod, on average over 3 repeats. Fewer than 6 repeats give" in words
    assert "Fewer than 6 repeats give no interval, and so no verdict." in words


def test_the_table_has_a_row_for_each_arm_with_its_parts_and_intervals():
    text, _ = said(ALIKE, [turn(exchange=0.25, slower=0.05)] * 6)
    [row] = [line for line in text.splitlines() if line.startswith("mwms ")]
    assert row.split()[1:] == ["1000", "50", "0", "250", "0", "1300", "0.77"]
    below = text.splitlines()[text.splitlines().index(row) + 1]
    assert "(250 to 250)" in below
    assert "(0.77 to 0.77)" in below


def test_cores_that_servers_had_beside_those_of_the_ranks_are_said():
    _, words = said(ALIKE, ALIKE, servers="+2 cores for servers")
    assert "mwms: +2 cores for servers. Its ranks have as many cores as those of the other arms." in words


def test_what_the_records_do_not_tell_is_said():
    _, words = said(ALIKE, ALIKE)
    assert "what other processes took of the cores is in slower computing and in waiting" in words
    assert "still computed" not in words
    _, words = said(ALIKE, ALIKE, flat=False)
    assert "mwms: the exchange of some gradients may begin while others are still computed." in words
    own = [
        replace(one, arms={p: replace(of, synchronous=False) for p, of in one.arms.items()})
        for one in [turn(exchange=0.25)] * 6
    ]
    text, words = said(ALIKE, own)
    assert "mwms: not synchronous SGD. No rank waits for another before the end" in words
    assert " none " in next(line for line in text.splitlines() if line.startswith("mwms "))
    untold = [
        replace(one, arms={p: Measured(of.window_s, of.steps_s, None, None, None) for p, of in one.arms.items()})
        for one in ALIKE
    ]
    text, words = said(ALIKE, untold)
    assert "mwms: the records do not say when gradients were ready" in words
    assert "not known" in text
