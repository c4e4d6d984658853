"""One comparison: a local number beside a published one, what is allowed, and the verdict."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from analysis import json_values
from analysis.compare import tolerances
from analysis.compare.curves import Curve
from analysis.compare.tolerances import WORDS, Tolerance, Word
from analysis.stats.number import Number
from analysis.stats.verdict import Bounds, Verdict


@dataclass(frozen=True)
class Comparison:
    """A local number beside the published one, in `unit`.

    `at` is the size of the point on `axis`, None for what is of a whole curve. `allowed`: by the tolerance; None: for
    information. `judged` is None for information, and where the local number is not valid; in what `compare` returns
    its p is Holm's, over all comparisons that are judged.
    """

    report: str
    experiment: str
    model: str
    published_on: str
    local_on: str
    quantity: str
    unit: str
    axis: str
    at: float | None
    published: Number
    local: Number
    allowed: Bounds | None
    judged: Verdict | None
    note: str

    @property
    def verdict(self) -> Word:
        """The verdict in words."""
        if self.judged:
            return WORDS[self.judged.outcome]
        return "not judged" if self.allowed else "for information"

    def as_json(self) -> dict[str, Any]:
        """The comparison for programs; docs/json.md has the schema."""
        names = ("report", "experiment", "model", "published_on", "local_on", "quantity", "unit", "axis", "at")
        allowed = {end: getattr(self.allowed, end, None) for end in ("low", "high")}
        return json_values.plain(
            {name: getattr(self, name) for name in names}
            | {"published": self.published.as_json(), "local": self.local.as_json(), "allowed": allowed}
            | {"p_value": self.judged.p if self.judged else None, "verdict": self.verdict, "note": self.note}
        )


@dataclass(frozen=True)
class Compared:
    """All comparisons, and what has no counterpart."""

    rows: list[Comparison]
    local_alone: list[str]
    published_alone: list[str]

    def as_json(self) -> dict[str, Any]:
        """All comparisons for programs; docs/json.md has the schema."""
        alone = {"local_alone": self.local_alone, "published_alone": self.published_alone}
        return {"comparisons": [row.as_json() for row in self.rows], **alone}


@dataclass(frozen=True)
class Subject:
    """What is compared: a quantity of two curves, at one size (over another, where it is a ratio) or as a whole."""

    published: Curve
    local: Curve
    quantity: str
    at: float | None = None
    over: float | None = None

    def find(self, quantity: str, limits: Sequence[Tolerance]) -> Tolerance | None:
        """The tolerance for a quantity at this point."""
        mine = self.local
        point = {"experiment": mine.experiment, "model": mine.model, "device": mine.device, "at": self.at}
        return tolerances.find(limits, quantity, **point)

    def limit(self, limits: Sequence[Tolerance]) -> Tolerance | None:
        """The tolerance for it; none for an efficiency whose speedup has one, as they are one measurement."""
        speedup = self.quantity.replace("efficiency_", "speedup_")
        if speedup != self.quantity and self.at is not None and self.find(speedup, limits):
            return None
        return self.find(self.quantity, limits)

    def around(self, limits: Sequence[Tolerance]) -> Tolerance | None:
        """The tolerance around a published number; one that states a value says nothing about that of the report."""
        limit = self.limit(limits)
        return limit if limit and limit.value is None else None

    def why_lost(self) -> str:
        """Why it is not judged: a point of it is no measurement of scaling. "" where all are."""
        return self.local.why_lost(*(size for size in (self.over, self.at) if size is not None))


def compared(what: Subject, value: Number, seen: Number, limit: Tolerance | None, note: str = "") -> Comparison:
    """What is seen beside a published value, with the verdict by a tolerance (None: for information)."""
    allowed = limit.bounds(value.value) if limit else None
    lost = what.why_lost()
    judged = limit.judge(seen, value) if limit and not lost else None
    remarks = [note, lost, judged.why if judged and judged.why == "no interval" else ""]
    unit = tolerances.unit(what.quantity)
    assert unit is not None
    theirs, mine = what.published, what.local
    return Comparison(
        theirs.report, mine.experiment, mine.model, theirs.on, mine.on, what.quantity, unit, mine.axis, what.at,
        value, seen, allowed, judged, "; ".join(filter(None, remarks)),
    )  # fmt: skip
