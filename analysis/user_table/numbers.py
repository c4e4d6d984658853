"""The cells of a column as numbers: value, rounding and unit, or why there is none."""

from __future__ import annotations

import functools
import math
import re
from dataclasses import dataclass, replace

from analysis.user_table import units
from analysis.user_table.units import PLAIN, RANK, TIME, Unit
from common import numerals

FEW = 200  # cells of a column that are looked at first
_LONGEST = 120  # characters of a number
_PLAIN = re.compile(r"(\d{1,20}(?:\.\d{1,19})?) ?([A-Za-z%×/]{0,20})")  # most cells of large tables
_DIGITS = r"[-+]?(?:\d[\d.,'’_]*(?: \d{3}(?!\d)[\d.,]*)*(?<![,'’_])|\.\d+)(?:[eE][-+]?\d+)?"
_CELL = re.compile(rf"~?\s*({_DIGITS})\s*(?:([%a-zA-Z/ ]*?)(?:±|\+/?-)\s*{_DIGITS})?\s*(\D.*)?", re.S)
_REMARK = re.compile(r"(?<=[\w%.×])\s*(?:[*†‡§]+|\[\w{1,2}\]|\([^()]*\))$")
_CLOCK = re.compile(r"(?:(\d+)(?:-| days?, ))?(\d+):(\d{2})(?::(\d{2}(?:\.\d+)?))?")
_PART = re.compile(rf"(\d+(?:\.\d+)?) ?({TIME})(?![a-z])[ ,]*", re.I)
_DEVICE = r"(?:[A-Za-z-]+ ?){1,2}\d[\w.-]*(?: \d+ ?GB)?"  # "V100", "RTX 4090", "NVIDIA A100 80GB"
_COUNT = re.compile(rf"(?:(\d{{1,9}}) ?[x×] ?)?(\d{{1,9}})(?: ?[x×] ?(?:(?i:{RANK})|({_DEVICE})))?(?: ?\(.*\))?")


@dataclass(frozen=True)
class CellNumber:
    """A printed number: half_unit is how far rounding can have moved it."""

    value: float
    half_unit: float = 0.0
    unit: Unit = PLAIN

    def times(self, factor: float) -> CellNumber:
        """Return the number in another unit."""
        return replace(self, value=self.value * factor, half_unit=self.half_unit * factor)


Cell = CellNumber | str  # or why it has none; "" for a blank one


@functools.lru_cache(maxsize=1 << 17)  # each answer is tried by reading the table again
def parse(text: str, mark: str = ".") -> Cell:
    """Return one cell as a number, with this mark before decimals, without a footnote mark, remark or range."""
    if plain := _PLAIN.fullmatch(text):
        return _number(text, plain[1], plain[2], mark)
    text = re.sub(r"[\u00a0\u2009\u202f]", " ", text.replace("\u2212", "-")).strip()
    if len(text) > _LONGEST:
        return f"'{text[:20]}...' is not a number"
    text = _REMARK.sub("", text)
    if not text.strip("-–—"):
        return "" if text else "empty"
    if clock := _CLOCK.fullmatch(text):
        days, first, second, third = clock.groups()
        whole = bool(third or days)  # "43:05" is in the unit that the column says
        total = (int(first) * 60 + int(second)) * (60 if whole else 1) + float(third or 0) + 86400 * int(days or 0)
        return CellNumber(total, 0.5, Unit("time", text="h:mm:ss" if whole else "0:00"))
    if not _PART.sub("", text) and len(parts := _PART.findall(text)) > 1:
        sizes = [units.TIMES[unit.lower()] for _, unit in parts]
        duration = sum(float(number) * size for (number, _), size in zip(parts, sizes, strict=True))
        return CellNumber(duration, 0.5 * min(sizes), Unit("time", text="h m s"))
    match = _CELL.fullmatch(text)
    return _number(text, match[1] if match else "", match[3] or match[2] or "" if match else "", mark)


def _number(text: str, digits: str, unit_text: str, mark: str) -> Cell:
    """Return the number with these digits and this unit; why there is none, by the text of its cell."""
    number, unit = numerals.number(digits, mark), units.read_unit(unit_text)
    if number is None or unit is None:
        return f"'{text[:40]}' is not a number"
    return CellNumber(number[0] * unit.factor, number[1] * unit.factor, unit)


def counted(text: str) -> tuple[str, str]:
    """Return a count with "×" as a number, and its device: "8x V100 (2 nodes)" as "8", "V100"; else the cell, ""."""
    if match := _COUNT.fullmatch(text.strip()):
        return str(int(match[1] or 1) * int(match[2])), match[3] or ""
    return text, ""


def counts(text: str) -> bool:
    """Return whether a cell is a whole number, with the unit of a count if it has one."""
    cell = parse(text, ".")
    return isinstance(cell, CellNumber) and cell.unit.kind in ("", "count") and cell.value % 1 == 0


def value(text: str) -> float:
    """Return the value of a cell; NaN if it is no number."""
    cell = parse(text, ".")
    return cell.value if isinstance(cell, CellNumber) else math.nan


@functools.lru_cache(maxsize=1 << 10)
def share(cells: tuple[str, ...]) -> float:
    """Return the share of numbers, by one decimal mark or the other, among the cells that are not blank."""
    filled = [cell for cell in cells if cell.strip("-–— ")]
    marks = (any(isinstance(parse(cell, mark), CellNumber) for mark in ".,") for cell in filled)
    return sum(marks) / max(1, len(filled))


@functools.lru_cache(maxsize=1 << 10)
def kinds(cells: tuple[str, ...]) -> frozenset[str]:
    """Return the kinds of the units of those cells that are numbers with a unit."""
    parsed = (parse(cell, ".") for cell in cells)
    return frozenset(cell.unit.kind for cell in parsed if isinstance(cell, CellNumber) and cell.unit.kind)


@functools.lru_cache(maxsize=1 << 10)
def decimal_marks(cells: tuple[str, ...]) -> tuple[frozenset[str], list[str]]:
    """Return the decimal marks that cells show, and those cells whose value depends on the mark, as "1.234"."""
    shown: set[str] = set()
    unclear: list[str] = []
    for text in cells:
        by_mark = {mark: cell.value for mark in ".," if isinstance(cell := parse(text, mark), CellNumber)}
        shown |= {*by_mark} if len(by_mark) == 1 else set()
        unclear += [text] * (len({*by_mark.values()}) > 1)
    return frozenset(shown), unclear
