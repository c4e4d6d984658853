"""The verdict on each point: the newest launches compared with those before, or with a reference.

`benchmarks/history_power.py` simulates how often the verdicts are wrong and what they detect; docs/history.md has it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from analysis.history.points import COSTS, UNITS, Key, Values
from analysis.history.sessions import Session
from analysis.stats import student, verdict
from analysis.stats.number import Number, unknown
from analysis.stats.verdict import Bounds, Verdict
from analysis.text import json_value
from analysis.thresholds import limit


@dataclass(frozen=True)
class Change:
    """The values of a point before and now, and why they cannot be judged ("" where they can)."""

    key: Key
    before: tuple[float, ...]
    now: tuple[float, ...]
    older: tuple[tuple[float, ...], ...] = ()  # launches that only tell how far launches scatter
    why_not: str = ""


@dataclass(frozen=True)
class Row:
    """One point with its verdict. `ratio`: now over before; None where it is not known."""

    change: Change
    ratio: Number | None
    judged: Verdict | None

    @property
    def verdict(self) -> VerdictName:
        """The verdict in words; not decidable where it was not judged."""
        return verdict_name(self.judged, self.change.key.quantity in COSTS) if self.judged else "not decidable"

    @property
    def note(self) -> str:
        """Why nothing was decided, where that does not follow from the interval."""
        if self.change.why_not or self.judged:
            return self.change.why_not
        return "one launch before and one now: how far launches differ is not known"

    def as_json(self) -> dict[str, Any]:
        """The row for programs; docs/json.md has the schema."""
        key, p = self.change.key, self.judged.p if self.judged else math.nan
        ratio = self.ratio or unknown()
        return json_value(
            {"experiment": key.experiment, "model": key.model, "ranks": key.ranks, "point": key.point}
            | {"machine": key.machine, "quantity": key.quantity, "unit": UNITS[key.quantity]}
            | {"before": [*self.change.before], "now": [*self.change.now], "ratio": ratio.as_json()}
            | {"p_value": p, "verdict": self.verdict, "note": self.note}
        )


def verdict_rows(changes: Sequence[Change], within: float) -> list[Row]:
    """Each point with its verdict, of which all together are wrong at most 5 times in 100."""
    ratios = {
        nth: mean_ratio(one.before, one.now, one.older) for nth, one in enumerate(changes) if one.before and one.now
    }
    decided = [nth for nth, ratio in ratios.items() if not changes[nth].why_not and ratio.has_interval]
    judged = dict(zip(decided, judge_ratios([ratios[nth] for nth in decided], within), strict=True))
    return [Row(one, ratios.get(nth), judged.get(nth)) for nth, one in enumerate(changes)]


def newest_changes(histories: Mapping[Key, Values], sessions: Sequence[Session]) -> list[Change]:
    """Each point on the newest of some sessions beside those before it that were made alike."""
    last, (*older, base) = sessions[-1].number, session_states(sessions[:-1]) or [[]]
    changes = []
    for key, values in histories.items():
        before, now = tuple(values.on(base)), tuple(values.on([last]))
        missing = "not measured in the newest session" if not now else "" if before else "not measured before it"
        scattered = tuple(tuple(values.on(state)) for state in older)
        changes.append(Change(key, before, now, scattered, missing or values.why_lost([*base, last])))
    return changes


def session_states(sessions: Sequence[Session]) -> list[list[int]]:
    """The numbers of sessions, in groups of those that follow each other and were made alike.

    The newest session is beside the last group: an older state of the machine, before an update that made it faster,
    say, is no measure of what was lost since.
    """
    return [[one.number for one in alike] for _, alike in itertools.groupby(sessions, key=lambda one: one.provenance)]


VerdictName = Literal["as before", "slower", "faster", "not decidable"]
VERDICTS: tuple[VerdictName, ...] = ("slower", "not decidable", "as before", "faster")


def default_tolerance() -> float:
    """How far from before a value still counts as the same, a fraction, where the user names none."""
    return limit("as_before")


def launch_mean(values: Sequence[float]) -> Number:
    """The mean of a point over its launches, with Student's interval on the logarithm; one launch has none."""
    return student.on_logarithm(student.mean(values))


def mean_ratio(before: Sequence[float], now: Sequence[float], older: Sequence[Sequence[float]] = ()) -> Number:
    """mean(now) / mean(before) of the values of single launches, with its interval.

    Where nothing older is known, and both sides have two launches or more, it is the ratio that `compare` shows for two
    sets, with Welch's interval. Else launches are taken to scatter alike about the mean of each group: before, now, and
    each of `older`. With one launch in each there is no interval.
    """
    if not any(len(values) > 1 for values in older) and min(len(before), len(now)) > 1:
        return student.ratio_of_means(before, now)
    return student.pooled_ratio_of_means(before, now, older)


def judge_ratios(ratios: Sequence[Number], fraction: float) -> list[Verdict]:
    """The verdict on each ratio, all of which together are wrong at most 5 times in 100.

    Inside: its 90 % interval is within `fraction` of 1; outside: its whole 95 % interval is beyond.
    """
    return verdict.judge_all(ratios, Bounds(1 - fraction, 1 + fraction))


def verdict_name(one: Verdict, is_cost: bool) -> VerdictName:
    """A verdict in words. `is_cost`: it is on a ratio of times, which is larger where something is slower."""
    if one.outcome == "undecided":
        return "not decidable"
    return "as before" if one.outcome == "inside" else "slower" if one.above == is_cost else "faster"
