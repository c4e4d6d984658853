"""The verdict on each point: its newest launches beside those before, or beside a reference."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from analysis import json_values
from analysis.history import change
from analysis.history.change import Word
from analysis.history.occasions import Occasion
from analysis.history.points import COSTS, UNITS, Key, Values
from analysis.stats.number import Number, unknown
from analysis.stats.verdict import Verdict


@dataclass(frozen=True)
class Beside:
    """The values of a point before and now, and why they cannot be judged ("" where they can)."""

    key: Key
    before: tuple[float, ...]
    now: tuple[float, ...]
    older: tuple[tuple[float, ...], ...] = ()  # launches that only tell how far launches scatter
    why_not: str = ""


@dataclass(frozen=True)
class Row:
    """One point with its verdict. `ratio`: now over before; None where it is not known."""

    beside: Beside
    ratio: Number | None
    judged: Verdict | None

    @property
    def verdict(self) -> Word:
        """The verdict in words; not decidable where it was not judged."""
        return change.word(self.judged, self.beside.key.quantity in COSTS) if self.judged else "not decidable"

    @property
    def note(self) -> str:
        """Why nothing was decided, where that does not follow from the interval."""
        if self.beside.why_not or self.judged:
            return self.beside.why_not
        return "one launch before and one now: how far launches differ is not known"

    def as_json(self) -> dict[str, Any]:
        """The row for programs; docs/json.md has the schema."""
        key, p = self.beside.key, self.judged.p if self.judged else math.nan
        ratio = self.ratio or unknown()
        return json_values.plain(
            {"experiment": key.experiment, "model": key.model, "ranks": key.ranks, "point": key.point}
            | {"machine": key.machine, "quantity": key.quantity, "unit": UNITS[key.quantity]}
            | {"before": [*self.beside.before], "now": [*self.beside.now], "ratio": ratio.as_json()}
            | {"p_value": p, "verdict": self.verdict, "note": self.note}
        )


def rows(besides: Sequence[Beside], within: float) -> list[Row]:
    """Each point with its verdict, of which all together are wrong at most 5 times in 100."""
    ratios = {
        nth: change.ratio(one.before, one.now, one.older) for nth, one in enumerate(besides) if one.before and one.now
    }
    decided = [nth for nth, of in ratios.items() if not besides[nth].why_not and of.has_interval]
    judged = dict(zip(decided, change.judge([ratios[nth] for nth in decided], within), strict=True))
    return [Row(one, ratios.get(nth), judged.get(nth)) for nth, one in enumerate(besides)]


def newest(histories: Mapping[Key, Values], found: Sequence[Occasion]) -> list[Beside]:
    """Each point on the newest of some occasions beside those before it that were made alike."""
    last, (*older, base) = found[-1].number, states(found[:-1]) or [[]]
    besides = []
    for key, values in histories.items():
        before, now = tuple(values.on(base)), tuple(values.on([last]))
        missing = "not measured on the newest occasion" if not now else "" if before else "not measured before it"
        scattered = tuple(tuple(values.on(state)) for state in older)
        besides.append(Beside(key, before, now, scattered, missing or values.why_lost([*base, last])))
    return besides


def states(found: Sequence[Occasion]) -> list[list[int]]:
    """The numbers of occasions, in groups of those that follow each other and were made alike.

    The newest occasion is beside the last group: an older state of the machine, before an update that made it faster,
    say, is no measure of what was lost since.
    """
    return [[one.number for one in alike] for _, alike in itertools.groupby(found, key=lambda one: one.making)]
