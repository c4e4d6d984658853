"""Tolerances: how far a number may be from its reference. Written as in ReFrame: (value, lower, upper, unit)."""

import math
import tomllib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from analysis import TableError
from analysis.stats import Number
from analysis.stats.verdict import Bounds, Outcome, Verdict, leaning
from analysis.table import schema

TOLERANCES = Path(__file__).with_name("tolerances.toml")

VerdictName = Literal["within", "outside", "not decidable", "not judged", "for information"]
VERDICTS: tuple[VerdictName, ...] = ("outside", "not decidable", "within", "not judged", "for information")
VERDICT_NAMES: dict[Outcome, VerdictName] = {"inside": "within", "outside": "outside", "undecided": "not decidable"}

# Quantities of comparisons that the tidy table does not have, with their units.
COMPARED = {
    "efficiency_throughput_per_doubling": "fraction",
    "efficiency_wall_time_per_doubling": "fraction",
    "efficiency_job_time_per_doubling": "fraction",
    "relative_throughput": "x",
    "order_by_throughput": "fraction",
    "order_by_efficiency": "fraction",
}
_SELECTORS = ("experiment", "model", "device", "at")


def unit(quantity: str) -> str | None:
    """Return the unit of a quantity of the tidy table or of a comparison; None for an unknown quantity."""
    definition = schema.quantity(quantity)
    return definition.unit if definition else COMPARED.get(quantity)


@dataclass(frozen=True)
class Tolerance:
    """One reference: its value (None: the published number), and how far below and above it is allowed, relative."""

    quantity: str
    unit: str
    value: float | None
    lower: float | None
    upper: float | None
    where: dict[str, Any] = field(default_factory=dict)

    def bounds(self, published: float) -> Bounds:
        """Return the allowed values, in the unit of the quantity."""
        value = published if self.value is None else self.value
        low = -math.inf if self.lower is None else value * (1 + self.lower)
        high = math.inf if self.upper is None else value * (1 + self.upper)
        return Bounds(low, high)

    def judge(self, local: Number, published: Number) -> Verdict:
        """Return whether a local number is inside or outside the tolerance, and how often that is by chance.

        Inside: around every value that the published number may be rounded from. Outside: around none of them.
        """
        low, high = self.bounds(published.low), self.bounds(published.high)
        return leaning(local, Bounds(low.low, high.high), Bounds(high.low, low.high))


def _tolerance(entry: dict[str, Any], where: str) -> Tolerance:
    def need(held: bool, key: str, allowed: str) -> None:
        if not held:
            raise TableError(f"{where}: {key} = {entry.get(key, 'nothing')!r} given, {allowed}")

    keys = ("quantity", "value", "lower", "upper", "unit", *_SELECTORS)
    if unknown := [key for key in entry if key not in keys]:
        raise TableError(f"{where}: '{unknown[0]}' is not known (allowed: {', '.join(keys)})")
    quantity, value = entry.get("quantity"), entry.get("value")
    expected = unit(quantity) if isinstance(quantity, str) else None
    need(expected is not None, "quantity", "must be one of the tidy table or of a comparison")
    need(entry.get("unit") == expected, "unit", f"must be '{expected}'")
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    need(value == "published" or number, "value", "must be 'published' or a number")
    limits = {}
    for key, sign, allowed in (("lower", -1, "0 or negative"), ("upper", 1, "0 or positive")):
        limit = limits[key] = entry.get(key)
        fits = limit is None or (
            isinstance(limit, int | float) and not isinstance(limit, bool) and 0 <= sign * limit < math.inf
        )
        need(fits, key, f"must be a fraction of the value, {allowed}")
    selectors = {key: entry[key] for key in _SELECTORS if key in entry}
    stated = None if value == "published" else float(value)  # type: ignore[arg-type]
    return Tolerance(str(quantity), str(expected), stated, limits["lower"], limits["upper"], selectors)


def read(path: Path = TOLERANCES) -> list[Tolerance]:
    """Return the tolerances in the TOML file `path`, in its order.

    Raises TableError naming the file, the entry, what was given and what is allowed.
    """
    try:
        entries = tomllib.loads(path.read_text())["tolerance"]
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError, KeyError) as error:
        raise TableError(f"{path}: not a readable list of [[tolerance]]: {error}") from error
    return [_tolerance(dict(entry), f"{path}: entry {number}") for number, entry in enumerate(entries, 1)]


def find(tolerances: Sequence[Tolerance], quantity: str, **point: Any) -> Tolerance | None:
    """Return the first tolerance for a quantity at a point (experiment, model, device, at), or None."""
    for tolerance in tolerances:
        if tolerance.quantity == quantity and all(point.get(key) == value for key, value in tolerance.where.items()):
            return tolerance
    return None
