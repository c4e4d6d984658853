"""How a point changed between launches: the ratio of its values with an interval that knows the spread of launches.

`benchmarks/history_power.py` simulates how often the verdicts are wrong and what they find; docs/history.md has it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from analysis.stats import student, verdict
from analysis.stats.number import Number
from analysis.stats.verdict import Bounds, Verdict
from analysis.thresholds import limit

Word = Literal["as before", "slower", "faster", "not decidable"]
VERDICTS: tuple[Word, ...] = ("slower", "not decidable", "as before", "faster")


def within() -> float:
    """How far from before a value still counts as the same, a fraction, where the user names none."""
    return limit("as_before")


def level(values: Sequence[float]) -> Number:
    """The mean of a point over its launches, with Student's interval on the logarithm; one launch has none."""
    return student.on_logarithm(student.mean(values))


def ratio(before: Sequence[float], now: Sequence[float], older: Sequence[Sequence[float]] = ()) -> Number:
    """mean(now) / mean(before) of the values of single launches, with its interval.

    Where nothing older is known, and both sides have two launches or more, it is the ratio that `compare` shows for two
    sets, with Welch's interval. Else launches are taken to scatter alike about the mean of each group: before, now, and
    each of `older`. With one launch in each there is no interval.
    """
    if not any(len(values) > 1 for values in older) and min(len(before), len(now)) > 1:
        return student.ratio_of_means(before, now)
    return student.pooled_ratio_of_means(before, now, older)


def judge(ratios: Sequence[Number], fraction: float) -> list[Verdict]:
    """The verdict on each ratio, all of which together are wrong at most 5 times in 100.

    Inside: its 90 % interval is within `fraction` of 1; outside: its whole 95 % interval is beyond.
    """
    return verdict.judge_all(ratios, Bounds(1 - fraction, 1 + fraction))


def word(one: Verdict, is_cost: bool) -> Word:
    """A verdict in words. `is_cost`: it is on a ratio of times, which is larger where something is slower."""
    if one.outcome == "undecided":
        return "not decidable"
    return "as before" if one.outcome == "inside" else "slower" if one.above == is_cost else "faster"
