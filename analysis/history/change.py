"""How a point changed between launches: the ratio of its values with an interval that knows the spread of launches.

`benchmarks/history_power.py` simulates how often the verdicts are wrong and what they find; docs/history.md has it.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from analysis import metrics, verdicts
from analysis.compare import sets
from analysis.metrics import Estimate
from analysis.thresholds import limit
from analysis.verdicts import Limits, Uncertain

Verdict = Literal["as before", "slower", "faster", "not decidable"]
VERDICTS: tuple[Verdict, ...] = ("slower", "not decidable", "as before", "faster")


def within() -> float:
    """How far from before a value still counts as the same, a fraction, where the user names none."""
    return limit("as_before")


def level(values: Sequence[float]) -> Uncertain:
    """The mean of a point over its launches, with Student's interval on the logarithm; one launch has none."""
    mean = metrics.estimate(values)
    relative = mean.standard_error / mean.value
    return verdicts.of_estimate(Estimate(math.log(mean.value), relative, mean.degrees, mean.n), log=True)


def ratio(before: Sequence[float], now: Sequence[float], older: Sequence[Sequence[float]] = ()) -> Uncertain:
    """mean(now) / mean(before) of the values of single launches, with its interval.

    Where nothing older is known, and both sides have two launches or more, it is the ratio that `compare` shows for two
    sets, with Welch's interval. Else launches are taken to scatter alike, on a logarithmic scale, about the mean of
    each group: before, now, and each of `older` (Student's t with the degrees of freedom of all groups). With one
    launch in each there is no interval.
    """
    groups = [of for of in (before, now, *older) if len(of) > 1]
    if not any(len(of) > 1 for of in older) and min(len(before), len(now)) > 1:
        return sets.of_rates(before, now)
    value = metrics.speedup(math.fsum(now) / len(now), math.fsum(before) / len(before))
    n, degrees = min(len(before), len(now)), sum(len(of) - 1 for of in groups)
    if not groups:
        return verdicts.unknown(value, n)
    error = _scatter(groups, degrees) * math.sqrt(1 / len(before) + 1 / len(now))
    return verdicts.of_estimate(Estimate(math.log(value), error, degrees, n), log=True)


def _scatter(groups: Sequence[Sequence[float]], degrees: int) -> float:
    """The pooled standard deviation of the logarithms within some groups."""
    logs = [[math.log(value) for value in of] for of in groups]
    return math.sqrt(math.fsum((x - math.fsum(of) / len(of)) ** 2 for of in logs for x in of) / degrees)


@dataclass(frozen=True)
class Judged:
    """The verdict on one ratio, and how often it would come from chance, by Holm over all that are judged together."""

    verdict: Verdict
    p_value: float


def judge(ratios: Sequence[Uncertain], fraction: float, costs: Collection[int] = ()) -> list[Judged]:
    """The verdict on each ratio, all of which together are wrong at most 5 times in 100.

    `as before`: its 90 % interval is within `fraction` of 1; `slower`, `faster`: its whole 95 % interval is beyond.
    `costs`: the places of those that are ratios of times, which are larger where something is slower.
    """
    found = [verdicts.p_value(one, Limits(1 - fraction, 1 + fraction)) for one in ratios]
    adjusted = verdicts.adjust([p for _, p in found])
    return [
        Judged(_named(verdict, (ratios[nth].value < 1) != (nth in costs)), p)
        for nth, (verdict, p) in enumerate(zip(verdicts.holm(found), adjusted, strict=True))
    ]


def _named(verdict: verdicts.Verdict, slower: bool) -> Verdict:
    if verdict == "not decidable":
        return "not decidable"
    return "as before" if verdict == "supported" else "slower" if slower else "faster"
