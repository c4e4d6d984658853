"""The cells of a column as numbers: value, rounding, unit and interval, or why there is none."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from analysis.user_table import units
from analysis.user_table.units import TIME, Unit

MARKS = ".,"
_LONGEST = 120  # characters of a number
_GROUPS = {".": ",'’ _", ",": ".'’ _"}  # by decimal mark, the marks between thousands
_DIGITS = r"[-+]?(?:\d[\d.,'’_]*(?: \d{3}(?!\d)[\d.,]*)*(?<![,'’_])|\.\d+)(?:[eE][-+]?\d+)?"
_CELL = re.compile(rf"~?\s*({_DIGITS})\s*(?:([%a-zA-Z/ ]*?)(?:±|\+/?-)\s*({_DIGITS}))?\s*(\D.*)?", re.S)
_REMARK = re.compile(r"(?<=[\w%.×])\s*(?:[*†‡§]+|\[\w{1,2}\]|\([^()]*\))$")
_CLOCK = re.compile(r"(?:(\d+)(?:-| days?, ))?(\d+):(\d{2})(?::(\d{2}(?:\.\d+)?))?")
_PART = re.compile(rf"(\d+(?:\.\d+)?) ?({TIME})(?![a-z])[ ,]*", re.I)
_PLAIN = Unit("")


@dataclass(frozen=True)
class Number:
    """A printed number: half_unit is how far rounding can have moved it, low and high are its range."""

    value: float
    half_unit: float = 0.0
    unit: Unit = _PLAIN
    low: float = math.nan
    high: float = math.nan

    def times(self, factor: float) -> Number:
        """Return the number in another unit."""
        scaled: dict[str, Any] = {name: getattr(self, name) * factor for name in ("value", "half_unit", "low", "high")}
        return replace(self, **scaled)


@dataclass(frozen=True)
class Missing:
    """Why a cell has no number; "" if it is blank."""

    reason: str


Cell = Number | Missing


def parse(text: str, mark: str = ".") -> Cell:
    """Return one cell as a number, with this mark before decimals, without a footnote mark or remark in brackets."""
    text = re.sub(r"[\u00a0\u2009\u202f]", " ", text.replace("\u2212", "-")).strip()
    if len(text) > _LONGEST:
        return Missing(f"'{text[:20]}...' is not a number")
    text = _REMARK.sub("", text)
    if not text.strip("-–—"):
        return Missing("" if text else "empty")
    if clock := _CLOCK.fullmatch(text):
        days, first, second, third = clock.groups()
        whole = bool(third or days)  # "43:05" is in the unit that the column says
        total = (int(first) * 60 + int(second)) * (60 if whole else 1) + float(third or 0) + 86400 * int(days or 0)
        return Number(total, 0.5, Unit("time", text="h:mm:ss" if whole else "0:00"))
    if not _PART.sub("", text) and len(parts := _PART.findall(text)) > 1:
        sizes = [units.TIMES[unit.lower()] for _, unit in parts]
        duration = sum(float(number) * size for (number, _), size in zip(parts, sizes, strict=True))
        return Number(duration, 0.5 * min(sizes), Unit("time", text="h m s"))
    number = _with_unit(match, mark) if (match := _CELL.fullmatch(text)) else None
    return number or Missing(f"'{text[:40]}' is not a number")


def _with_unit(match: re.Match[str], mark: str) -> Number | None:
    """Return a number in its unit, with its range; None if it, its unit or its range cannot be read."""
    number, other = _number(match[1], mark), _number(match[3] or "", mark)
    unit = _unit(match[4] or match[2] or "")
    if unit is None or number is None or (match[3] and other is None):
        return None
    if other:
        number = replace(number, low=number.value - other.value, high=number.value + other.value)
    return replace(number, unit=unit) if unit.kind == "count" else replace(number, unit=unit).times(unit.factor)


def _unit(text: str) -> Unit | None:
    """Return the unit behind a number, as "k tok/s" or "k"; None if it is none."""
    if text[:1] in units.SCALES and (rest := units.read(text[1:])) and rest.kind == "rate":  # "1.2k img/s"
        return replace(rest, factor=rest.factor * units.SCALES[text[0]])
    return units.read(text)


def _number(token: str, mark: str) -> Number | None:
    """Return a number with this mark before decimals, other marks between groups of three digits; else None."""
    mantissa, _, exponent = token.lower().partition("e")
    for group in ("", *_GROUPS[mark]):
        whole = rf"[1-9]\d{{0,2}}(?:{re.escape(group)}\d{{3}})+" if group else r"\d+"
        if re.fullmatch(rf"[-+]?(?:{whole})?(?:{re.escape(mark)}\d*)?", mantissa) and re.search(r"\d", mantissa):
            plain = (mantissa.replace(group, "") if group else mantissa).replace(mark, ".")
            power = int(exponent or 0) if len(exponent) < 5 else 999
            value = float(plain) * 10.0**power if abs(power) < 300 else math.nan
            half_unit = 0.5 * 10.0 ** (power - len(plain.partition(".")[2])) if math.isfinite(value) else 0.0
            return Number(value, half_unit) if math.isfinite(value) else None
    return None


def is_number(text: str) -> bool:
    """Return whether a cell has a number."""
    return any(isinstance(parse(text, mark), Number) for mark in MARKS)


def kinds(cells: Iterable[str]) -> set[str]:
    """Return the kinds of the units of those cells that are numbers with a unit."""
    return {str(cell.unit.kind) for cell in map(parse, cells) if isinstance(cell, Number) and cell.unit.kind}


def decimal_marks(cells: Iterable[str]) -> set[str]:
    """Return the decimal marks that all of these cells allow: both if no cell shows it, none if cells contradict."""
    allowed = set(MARKS)
    for text in cells:
        possible = {mark for mark in MARKS if isinstance(parse(text, mark), Number)}
        allowed &= possible or allowed
    return allowed


def ambiguous(cells: Iterable[str]) -> list[str]:
    """Return the cells whose value depends on the decimal mark, as "1.234"."""
    pairs = [(text, [parse(text, mark) for mark in MARKS]) for text in cells]
    return [text for text, (a, b) in pairs if isinstance(a, Number) and isinstance(b, Number) and a.value != b.value]


def finite(cells: Sequence[Cell]) -> list[float]:
    """Return the values of a column; NaN where a cell has none."""
    return [cell.value if isinstance(cell, Number) else math.nan for cell in cells]
