"""The cells of one column as numbers, of any locale: value, rounding, unit and interval, or why there is none.

The column decides what "1.234" means: a mark that some cell can only have before its decimals is the decimal mark of
all. If no cell shows it, `columns` decides by other facts.
"""

from __future__ import annotations

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

from analysis.user_table import units
from analysis.user_table.units import Unit

MARKS = ".,"
_MISSING = {
    "", "-", "--", "---", "–", "—", "n/a", "n.a.", "na", "nan", "none", "null", "nil", "?", "tbd", "x", "/", ".", "…",
    "...", "#n/a", "-nan",
}  # fmt: skip
_FAILED = re.compile(
    r"(?i)oom|out of memory|.*\berror\b.*|fail(?:ed|ure)?|crash(?:ed)?|time ?out|timed out|dnf|did not finish|killed"
    r"|hang|inf|✗|✘"
)
_GROUPS = {".": ",'’ _", ",": ".'’ _"}  # by decimal mark, the marks between thousands
_SIGNED = r"[-+]?"
_DIGITS = r"(?:\d[\d.,'’_]*(?: \d{3}(?!\d)[\d.,]*)*(?<![,'’_])|\.\d+)(?:[eE][-+]?\d+)?"
_CELL = re.compile(
    rf"(?P<about>[~≈∼]|<=?|>=?|≤|≥|about |approx\.? |ca\.? )?\s*(?P<value>{_SIGNED}{_DIGITS})\s*"
    rf"(?:(?P<first_unit>[%a-zA-Z/ ]*?)\s*(?P<join>±|\+/?-|-/\+|–|—|\.\.|-|to\b)\s*(?P<other>{_DIGITS}))?"
    r"\s*(?P<unit>.*)",
    re.S,
)
_CLOCK = re.compile(r"(?:(\d+) ?d(?:ays?)?[ ,]+)?(\d+):(\d{2})(?::(\d{2}(?:[.,]\d+)?))?(?: ?(?:h|hrs?|hours?|min|s))?")
_HOURS = re.compile(r"(\d+) ?(?:h|hrs?|hours?) ?(\d{1,2})")  # "8h 05"
_PARTS = re.compile(rf"(?:(\d+(?:[.,]\d+)?) ?({units.TIME})\.?[ ,]*)+", re.I)
_PART = re.compile(rf"(\d+(?:[.,]\d+)?) ?({units.TIME})(?![a-z])", re.I)
_FOOTNOTE = re.compile(r"(?<=[\w%).])\s*(?:[*†‡§¶#^]+|\[\w{1,2}\]|\(\*+\))\s*$")


_PLAIN = Unit("number")


@dataclass(frozen=True)
class PrintedNumber:
    """A printed number: half_unit is how far rounding can have moved it, low and high are its range.

    about: "about", "at most" or "at least" if the cell says so. unit: the text behind it in the cell.
    """

    value: float
    half_unit: float = 0.0
    unit: Unit = _PLAIN
    low: float = math.nan
    high: float = math.nan
    about: str = ""

    def times(self, factor: float) -> PrintedNumber:
        """Return the number in another unit."""
        scaled = {name: getattr(self, name) * factor for name in ("value", "half_unit", "low", "high")}
        return replace(self, **scaled)


@dataclass(frozen=True)
class Missing:
    """Why a cell has no number; `noted` is False for an empty cell or dashes."""

    reason: str
    noted: bool = True


Cell = PrintedNumber | Missing


def clean(text: str) -> str:
    """Return the text of a cell without footnote marks and emoji, in plain characters: minus signs, spaces, digits."""
    text = re.sub(r"(?<=\d)\s*[x×·*]\s*10\^?([-⁻]?[⁰¹²³⁴-⁹]+|(?<=\^)-?\d+)", _exponent, text)
    text = unicodedata.normalize("NFKC", re.sub(r"[¹²³⁰⁴-⁹ⁿ]+$", "", text.strip().replace("\u2212", "-")))
    text = re.sub(r"^[x×] ?(\d+[.,]\d+)$", r"\1x", text)  # a ratio; "x16" may be lanes
    text = re.sub(r"[\u00a0\u2000-\u200b\u202f\u205f\u3000\ufeff]", " ", text).strip()
    if re.search(r"\d", text):
        text = re.sub(r"[\u2600-\u2793\u2b50-\u2b59\ufe0f\U0001f000-\U0001faff]", " ", text).strip()
    text = re.sub(r"(?<=\w)[*†‡]+(?= \()", "", text)  # before a remark
    return _FOOTNOTE.sub("", text).strip() if re.search(r"\w", text) else text


def _exponent(match: re.Match[str]) -> str:
    """Return "×10⁵" as "e5"."""
    return "e" + unicodedata.normalize("NFKC", match[1]).replace("\u2212", "-")


def is_number(text: str) -> bool:
    """Return whether a cell is a number, with or without a known unit, or stands for a missing one."""
    cleaned = clean(text)
    return cleaned.lower() in _MISSING or bool(_FAILED.fullmatch(cleaned)) or has_value(text)


def has_value(text: str) -> bool:
    """Return whether a cell has a number."""
    return any(isinstance(_parse(clean(text), mark), PrintedNumber) for mark in MARKS)


def units_of(cells: Sequence[str]) -> list[Unit]:
    """Return the units of those cells that are numbers."""
    return [cell.unit for cell in column(cells, ".") if isinstance(cell, PrintedNumber)]


def marks(cells: Sequence[str]) -> set[str]:
    """Return the decimal marks that all of these cells allow: both if no cell shows it, none if cells contradict."""
    allowed = set(MARKS)
    for text in map(clean, cells):
        possible = {mark for mark in MARKS if isinstance(_parse(text, mark), PrintedNumber)}
        allowed &= possible or allowed
    return allowed


def depends_on_mark(cells: Sequence[str]) -> bool:
    """Return whether the values of the cells depend on the decimal mark."""
    pairs = zip(*(values(cells, mark) for mark in MARKS), strict=True)
    return any(len({*filter(math.isfinite, pair)}) > 1 for pair in pairs)


def column(cells: Sequence[str], mark: str) -> list[Cell]:
    """Return the cells of a column as numbers, with this mark before decimals."""
    return [_parse(clean(text), mark) for text in cells]


def values(cells: Sequence[str], mark: str = ".") -> list[float]:
    """Return the cells of a column, with this mark before decimals, as numbers; NaN for others."""
    return [cell.value if isinstance(cell, PrintedNumber) else math.nan for cell in column(cells, mark)]


def _parse(text: str, mark: str) -> Cell:
    """Return one cell, without another number in brackets behind the first."""
    if text.lower() in _MISSING:
        return Missing(f"'{text}': no number" if text else "empty", bool(re.search("[^-–—]", text)))
    if _FAILED.fullmatch(text):
        return Missing(f"'{text}': not measured")
    if match := _CLOCK.fullmatch(text):
        days, *clock_parts = match.groups()
        clock = [float(part.replace(",", ".")) for part in reversed(clock_parts) if part]  # seconds first
        seconds = int(days or 0) * 86400 + sum(part * 60**power for power, part in enumerate(clock))
        return PrintedNumber(seconds, 0.5, Unit("time", text="h:mm:ss" if len(clock) > 2 else "m:ss"))
    if match := _HOURS.fullmatch(text):
        return PrintedNumber(int(match[1]) * 3600 + int(match[2]) * 60, 30, Unit("time", text="h mm"))
    if _PARTS.fullmatch(text) and len(parts := _PART.findall(text)) > 1:
        seconds = sum(float(number.replace(",", ".")) * units.TIMES[unit.lower()] for number, unit in parts)
        return PrintedNumber(seconds, 0.5 * units.TIMES[parts[-1][1].lower()], Unit("time", text="h m s"))
    match = _CELL.fullmatch(text)
    return (_with_unit(match, mark) if match else None) or Missing(f"'{text}' is no number")


def _with_unit(match: re.Match[str], mark: str) -> PrintedNumber | None:
    """Return a number in its unit, with its range; None if it, its unit or its range cannot be read."""
    unit = _unit(match["unit"] or match["first_unit"] or "")
    value, second = _number(match["value"], mark), _number(match["other"] or "", mark)
    if unit is None or value is None or (match["other"] and second is None):
        return None
    number = PrintedNumber(value.value, value.half_unit, unit, about=_about(match["about"] or ""))
    ranged = _spread(number, second, match["join"]) if second is not None else number
    return ranged.times(unit.factor) if ranged and unit.kind != "count" else ranged


def _spread(number: PrintedNumber, second: PrintedNumber, join: str) -> PrintedNumber | None:
    """Return a number with a range: 2.8 ± 0.1, or 2.7 - 2.9, whose middle counts; None if its ends are reversed."""
    if join in ("±", "+/-", "+-", "-/+"):
        return replace(number, low=number.value - second.value, high=number.value + second.value)
    if not second.value >= number.value > 0:
        return None
    middle = (number.value + second.value) / 2
    return replace(number, value=middle, half_unit=0.0, low=number.value, high=second.value, about="about")


def _about(sign: str) -> str:
    sign = sign.strip()
    return "" if not sign else "at most" if sign[0] in "<≤" else "at least" if sign[0] in ">≥" else "about"


def _unit(text: str) -> Unit | None:
    """Return the unit behind a number, without a remark in brackets; None if it is no unit."""
    text = re.sub(r"\([^()]*\)\s*$|\s+/\s+[\d.,]+ ?[KMGT]i?B$", "", text).strip()  # memory beside it
    scale = re.match(r"(k|K|M|G)\s+(?=\S)|(k|K|M)(?=(?:img|image|sample|tok|example|ex/|/s))", text)
    if scale and (rest := units.read(text[scale.end() :])):
        return replace(rest, factor=rest.factor * {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9}[(scale[1] or scale[2])])
    unit = units.read(text)
    if unit is None and re.fullmatch(r"[KMG]i?B?(?: each)?|[kMG]B/s|W|°?C|GFLOPS?|TFLOPS?", text):
        return Unit("other", text=text)
    return unit


def _number(token: str, mark: str) -> PrintedNumber | None:
    """Return a number with this mark before decimals, other marks between groups of three digits; else None."""
    mantissa, _, exponent = token.partition("e") if "e" in token else token.partition("E")
    for group in ("", *_GROUPS[mark]):
        between = re.escape(group)
        whole = rf"[1-9]\d{{0,2}}(?:{between}\d{{3}})+" if group else r"\d+"
        if re.fullmatch(rf"[-+]?(?:{whole})?(?:{re.escape(mark)}\d*)?", mantissa) and re.search(r"\d", mantissa):
            plain = (mantissa.replace(group, "") if group else mantissa).replace(mark, ".")
            decimals = len(plain.partition(".")[2])
            power = int(exponent or 0)
            value = float(plain) * 10.0**power if abs(power) < 300 else math.nan
            return PrintedNumber(value, 0.5 * 10.0 ** (power - decimals)) if math.isfinite(value) else None
    return None
