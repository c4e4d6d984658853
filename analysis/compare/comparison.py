"""One comparison: a local number beside a published one, what is allowed, and the verdict."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from analysis import json_values
from analysis.compare import tolerances
from analysis.compare.curves import Curve
from analysis.compare.tolerances import Tolerance, Verdict
from analysis.verdicts import ALPHA, Uncertain


@dataclass(frozen=True)
class Comparison:
    """A local number beside the published one, in `unit`; NaN where not known.

    `at` is the size of the point on `axis`, None for what is of a whole curve. `published_low` and `published_high` are
    the ends of what rounds to the published number, `low` and `high` those of the 95 % interval of the local one;
    `allowed_low` and `allowed_high` those of what the tolerance allows. `p_value`: how often the verdict would come
    from chance; in what `compare` returns by Holm, over all comparisons that are judged.
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
    published: float
    published_low: float
    published_high: float
    local: float
    low: float
    high: float
    n: int
    allowed_low: float
    allowed_high: float
    p_value: float
    verdict: Verdict
    note: str

    @property
    def judged(self) -> bool:
        """Whether it is one of those that share the chance of an error."""
        return self.verdict not in ("for information", "not judged")

    def as_json(self) -> dict[str, Any]:
        """The comparison for programs; docs/json.md has the schema."""
        cells = asdict(self)
        names = ("report", "experiment", "model", "published_on", "local_on", "quantity", "unit", "axis", "at")
        level = None if math.isnan(self.low) else 1 - ALPHA
        theirs = {"value": self.published, "low": self.published_low, "high": self.published_high, "level": 1.0, "n": 1}
        mine = {"value": self.local, "low": self.low, "high": self.high, "level": level, "n": self.n}
        return json_values.plain(
            {name: cells[name] for name in names}
            | {"published": theirs, "local": mine}
            | {"allowed": {"low": self.allowed_low, "high": self.allowed_high}}
            | {"p_value": self.p_value, "verdict": self.verdict, "note": self.note}
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


def compared(what: Subject, value: Uncertain, seen: Uncertain, limit: Tolerance | None, note: str = "") -> Comparison:
    """What is seen beside a published value, with the verdict by a tolerance (None: for information)."""
    bounds = limit.bounds(value.value) if limit else (math.nan, math.nan)
    verdict, p = tolerances.p_value(seen, value, limit) if limit else ("for information", math.nan)
    remarks = [note] if note else []
    if lost := what.why_lost():
        verdict, p = ("not judged" if limit else verdict), math.nan
        remarks.append(lost)
    elif limit and math.isnan(seen.low):
        remarks.append("no interval")
    unit = tolerances.unit(what.quantity)
    assert unit is not None
    theirs, mine = what.published, what.local
    return Comparison(
        theirs.report, mine.experiment, mine.model, theirs.on, mine.on, what.quantity, unit, mine.axis, what.at,
        value.value, value.low, value.high, seen.value, seen.low, seen.high, seen.n, *bounds, p, verdict,
        "; ".join(remarks),
    )  # fmt: skip
