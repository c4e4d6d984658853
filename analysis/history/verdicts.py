"""The verdict on each point: the newest launches compared with those before, or with a reference.

`benchmarks/history_power.py` simulates how often the verdicts are wrong and what they detect; docs/history.md has it.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from analysis.documents import counted
from analysis.history.sessions import COSTS, Key, Session, Values
from analysis.stats import student, verdict
from analysis.stats.number import Number
from analysis.stats.verdict import Bounds, Verdict

_ENOUGH_LAUNCHES = 3  # on either side, that tell by themselves how far launches differ


@dataclass(frozen=True)
class Change:
    """The values of a point before and now, and why they cannot be judged ("" where they can)."""

    key: Key
    before: tuple[float, ...]
    now: tuple[float, ...]
    older: tuple[tuple[float, ...], ...] = ()  # launches that only tell how far launches scatter
    why_not: str = ""

    @property
    def groups(self) -> list[tuple[float, ...]]:
        """Return its values in groups, each of which scatters about its mean."""
        return [group for group in (self.before, self.now, *self.older) if len(group) > 1]


@dataclass(frozen=True)
class Row:
    """One point with its verdict. `ratio`: now over before; None where it is not known."""

    change: Change
    ratio: Number | None
    judged: Verdict | None
    curves: int = 0  # others, whose launches were taken to tell how far launches differ

    @property
    def verdict(self) -> VerdictName:
        """Return the verdict in words; not decidable if it was not judged."""
        return verdict_name(self.judged, self.change.key.quantity in COSTS) if self.judged else "not decidable"

    @property
    def note(self) -> str:
        """Return why nothing was decided, if that does not follow from the interval."""
        if self.judged and self.curves:
            few = min(len(self.change.before), len(self.change.now))
            others = counted(self.curves, "other curve")
            return f"{counted(few, 'launch')}: with the variance between launches of {others}"
        if self.change.why_not or self.judged:
            return self.change.why_not
        return "one launch before and one now: how far launches differ is not known"


def verdict_rows(changes: Sequence[Change], within: float) -> list[Row]:
    """Return each change with its verdict; all together are wrong at most 5 times in 100."""
    others = [_measured_alike(one, changes) for one in changes]
    ratios = {
        nth: mean_ratio(one.before, one.now, [*one.older, *(group for other in others[nth] for group in other.groups)])
        for nth, one in enumerate(changes)
        if one.before and one.now
    }
    decided = [nth for nth, ratio in ratios.items() if not changes[nth].why_not and ratio.has_interval]
    judged = dict(zip(decided, judge_ratios([ratios[nth] for nth in decided], within), strict=True))
    return [Row(one, ratios.get(nth), judged.get(nth), len(others[nth])) for nth, one in enumerate(changes)]


def _measured_alike(change: Change, changes: Sequence[Change]) -> list[Change]:
    """Return the changes of other curves at as many ranks, if a side has too few launches to tell how they differ."""
    if min(len(change.before), len(change.now)) >= _ENOUGH_LAUNCHES:
        return []
    same = [
        other
        for other in changes
        if other.key.model != change.key.model
        and replace(other.key, model="", series="") == replace(change.key, model="", series="")
    ]
    return [other for other in same if other.groups]


def newest_changes(histories: Mapping[Key, Values], sessions: Sequence[Session]) -> list[Change]:
    """Return each point in the newest session, compared with those before it with one provenance."""
    last, (*older, base) = sessions[-1].number, session_states(sessions[:-1]) or [[]]
    changes = []
    for key, values in histories.items():
        before, now = tuple(values.on(base)), tuple(values.on([last]))
        missing = "not measured in the newest session" if not now else "" if before else "not measured before it"
        scattered = tuple(tuple(values.on(state)) for state in older)
        changes.append(Change(key, before, now, scattered, missing or values.why_lost([*base, last])))
    return changes


def session_states(sessions: Sequence[Session]) -> list[list[int]]:
    """Return session numbers in groups of neighbours with the same provenance.

    The newest session is compared with the last group: an older state of the machine, as before an update, does not
    show what changed since.
    """
    return [[one.number for one in alike] for _, alike in itertools.groupby(sessions, key=lambda one: one.provenance)]


VerdictName = Literal["as before", "slower", "faster", "not decidable"]
VERDICTS: tuple[VerdictName, ...] = ("slower", "not decidable", "as before", "faster")


def launch_mean(values: Sequence[float]) -> Number:
    """Return the mean over launches with Student's interval on the logarithm; one launch has no interval."""
    return student.on_logarithm(student.mean(values))


def mean_ratio(before: Sequence[float], now: Sequence[float], older: Sequence[Sequence[float]] = ()) -> Number:
    """Return mean(now) / mean(before) of values of launches, with its interval.

    Without older groups, and with two launches or more on both sides, it is Welch's interval, as `compare` shows for
    two sets. Otherwise the scatter is pooled about the mean of each group: before, now, and each of `older`. There is
    no interval with one launch in each group.
    """
    if not any(len(values) > 1 for values in older) and min(len(before), len(now)) > 1:
        return student.ratio_of_means(before, now)
    return student.pooled_ratio_of_means(before, now, older)


def judge_ratios(ratios: Sequence[Number], fraction: float) -> list[Verdict]:
    """Return the verdict on each ratio; all together are wrong at most 5 times in 100.

    Inside: its 90 % interval is within `fraction` of 1; outside: its whole 95 % interval is beyond.
    """
    return verdict.judge_all(ratios, Bounds(1 - fraction, 1 + fraction))


def verdict_name(one: Verdict, is_cost: bool) -> VerdictName:
    """Return a verdict in words. `is_cost`: the ratio is of times, which are larger if something is slower."""
    if one.outcome == "undecided":
        return "not decidable"
    return "as before" if one.outcome == "inside" else "slower" if one.above == is_cost else "faster"
