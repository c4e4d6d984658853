"""Numbers with their units as programs print them: a grammar, by which a number is read whole or refused with its line.

A number has marks between thousands, a decimal mark, a sign, an exponent or a prefix: 1,234.5, 1'234.5, 1_234, 1.2k,
0.12D+02, 1.2 x 10^6, 2.5 million. A time may have parts: 0:01:30, 1-02:03:04, 1m13.7s, 1 min 23 s. A unit is a word, or
words that are divided: img/s, tokens per second per device, s/it, ns/day. Its meaning follows from where the time is.
"""

import itertools
import re
from dataclasses import dataclass
from typing import Literal

from common import numerals

_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "μs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_SECONDS |= {"day": 86400.0, "d": 86400.0}
_NAMES = {"msec": "ms", "millisecond": "ms", "sec": "s", "second": "s", "minute": "min", "hr": "h", "hour": "h"}
_EACH = {"rank", "gpu", "cpu", "core", "device", "process", "proc", "worker", "node", "chip", "thread"}
_STEPS = {"it", "iter", "iteration", "step", "timestep", "batch", "batche"}
_PREFIXES = {"": 1.0, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15}
_BINARY = {"Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40}
_MAGNITUDES = {"thousand": 1e3, "million": 1e6, "billion": 1e9, "trillion": 1e12}

_PARTS = [
    rf"\d+(?:[.,]\d+)?[ ]?(?:{names})(?![^\W\d_])"
    for names in ("d|days?", "h|hrs?|hours?", "m|mins?|minutes?", "s|secs?|seconds?", "ms")
]
_JOINED = r",?[ ]?(?:and[ ])?"
_COMPOUND = "|".join(
    _PARTS[i] + _JOINED + _PARTS[j] + "".join(f"(?:{_JOINED}{part})?" for part in _PARTS[j + 1 :])
    for i, j in itertools.combinations(range(len(_PARTS)), 2)
)
_CLOCK = r"(?:\d+-\d+:\d\d:\d\d|(?:\d+:)?\d+:\d\d)(?:[.,]\d+)?"
_SPACES = "\u00a0\u2009\u202f"  # between thousands: they do not break a line
_BODY = rf"[-+]?(?:\d{{1,3}}(?:[ {_SPACES}]\d{{3}})+(?!\d)(?:[.,]\d+)?|\d+(?:[.,'’_]\d+)*|[.,]\d+)"
_POWER = r"[eE][-+]?\d+|[dD][-+]\d+|[ ]?[x×*·][ ]?10(?:\^|\*\*)[-+]?\d+"
_NUMBER = rf"{_BODY}(?:{_POWER}|[ ]?(?:{'|'.join(_MAGNITUDES)})s?\b|[ ]?[kKMGTP]\b(?!/))?"
_TOKEN = re.compile(rf"(?P<compound>{_COMPOUND})|(?P<clock>{_CLOCK})|(?P<number>{_NUMBER}|\b(?i:nan|inf)\b)")
# For a pattern. A space between thousands is not taken: it may also divide two numbers.
ANY = rf"(?<!\d)(?<!\d[.,:'’_])(?>{_COMPOUND}|{_CLOCK}|{_NUMBER}|\b(?i:nan|inf)\b)".replace(
    f"[ {_SPACES}]", f"[{_SPACES}]"
)
TIME_UNIT = r"(?:[ ]?(?:[nuµμm]?s|sec(?:ond)?s?|min(?:ute)?s?|hours?|h)(?![^\W\d_]|/))?"  # a pattern may have it itself
_GLUED_BEFORE = re.compile(r"\d(?:[-.,:'’_^/*]|[^\W\d_]+)$")
_GLUED_AFTER = re.compile(r"[-.,:'’_^/*+]\d")
_WORD = r"(?:[^\W\d_]+(?:-[^\W\d_]+)*|%)"
_UNIT = re.compile(rf"(?P<space>[ ]?)(?P<unit>{_WORD}(?:[ ]?(?:/|\bper\b)[ ]?{_WORD})*)(?P<after>.?)")
_LABEL = re.compile(rf"(?<!\w)[\[(](?P<unit>{_WORD}(?:/{_WORD})*)[\])]\s*[:=]?\s*$")

Kind = Literal["time", "rate", "cost", "other"]


class NumberError(ValueError):
    """What stands at or next to a number is not understood: says what, and what to type."""


@dataclass(frozen=True)
class PrintedQuantity:
    """A number with its unit.

    Attributes:
        value: in `unit`; of a time in s.
        unit: as printed, with / for "per"; "" if there is none.
        kind: a time; work per time; time per work; or anything else, also without a unit.
        counts_steps: it is a number of steps per time, or the time of one.
        each: what it is the share of, as "GPU"; "" if the unit does not say so.
        start: where it begins in its row.
        text: as printed, without its unit.
    """

    value: float
    unit: str
    kind: Kind
    counts_steps: bool
    each: str
    start: int
    text: str


def _canonical(word: str) -> str:
    """Return the name of a unit of time: in small letters if it is long, since MS/s and H/s are no times."""
    lower = word.lower()
    if word in _SECONDS:
        return word
    singular = lower.removesuffix("s")
    return _NAMES.get(singular, singular if len(word) > 2 and singular in ("min", "day") else word)


def seconds(unit: str) -> float | None:
    """Return how many seconds a unit of time has; None if it is none."""
    return 60.0 if unit == "m" else _SECONDS.get(_canonical(unit))


def _divided(unit: str) -> tuple[list[str], str]:
    """Return the words of a unit, those of time by their short names, and what it is the share of."""
    words = [word.strip() for word in re.split(r"/|\bper\b", unit)]
    each = [word for word in words[1:] if word.lower().removesuffix("s") in _EACH]
    return [_canonical(word) for word in words if word not in each], each[0] if each else ""


def _kind(words: list[str]) -> Kind:
    times = [_SECONDS.get(word) for word in words]
    match times:
        case [float()]:
            return "time"
        case [None, float()]:
            return "rate"
        case [float(), None]:
            return "cost"
        case [float(above), float(below)]:  # ns/day is a rate, day/ns a cost
            return "rate" if above < below else "cost"
    return "other"


def tokens(row: str) -> list[re.Match[str]]:
    """Return the numbers of a row, each whole."""
    return list(_TOKEN.finditer(row))


def quantity(row: str, start: int, end: int, matched: tuple[int, int], decimal: str | None = None) -> PrintedQuantity:
    """Return the number at row[start:end], whole and with its unit. Raises NumberError.

    matched: the span of the whole pattern: what it matched beside the number, and a space divides from it, is no part
    of it. decimal: the decimal mark, if the user has stated it.
    """
    line = row.strip()
    token = next((token for token in tokens(row) if token.start() < end and token.end() > start), None)
    matched_more = token and matched[0] <= token.start() and token.end() <= matched[1]
    if token and " " in token[0] and token.span() != (start, end) and matched_more:
        token = _TOKEN.fullmatch(row, start, end)
    if token is None:
        raise NumberError(f"'{row[start:end]}' is not a number, in '{line}'")
    text = token[0]
    if token.start() < start or _GLUED_BEFORE.search(row[: token.start()]):
        begin = min(token.start(), len(re.sub(r"[^\s=]+$", "", row[: token.start()])))
        whole = row[begin : token.end()]
        raise NumberError(f"the number is a part of {whole}, in '{line}'; match it from its begin")
    if _GLUED_AFTER.match(row, token.end()):
        whole = row[start:].split()[0]
        raise NumberError(f"'{whole}' is not a number, in '{line}'")
    if token["compound"] or token["clock"]:
        value = _compound(text) if token["compound"] else _clock(text)
        return PrintedQuantity(value, "s", "time", counts_steps=True, each="", start=start, text=text)
    return _with_unit(_number(text, line, decimal), text, row, token)


def _with_unit(value: float, text: str, row: str, token: re.Match[str]) -> PrintedQuantity:
    """Return a number with the unit after it, else the one in brackets before it. Raises NumberError."""
    unit = ""
    if after := _UNIT.match(row, token.end()):
        word = after["unit"]
        is_unit = re.search(r"/|\bper\b|%", word) or not after["space"] or seconds(word)
        unit = word if is_unit or not re.match(r"[ \w=:]", after["after"]) else ""  # "fps=500 q=-1"
    if not unit and (label := _LABEL.search(row[: token.start()])):
        unit = label["unit"]
    words, each = _divided(unit) if unit else ([], "")
    kind = _kind(words)
    if "%" in unit or (kind == "other" and len(words) > 1):
        raise NumberError(f"{text} {unit} is neither a rate nor a time, in '{row.strip()}'; match another number")
    work = words[-1 if kind == "cost" else 0].lower().removesuffix("s") if words else ""
    if kind == "time":
        return PrintedQuantity(value * _SECONDS[words[0]], "s", kind, True, each, token.start(), text)
    counts_steps = kind != "other" and work in _STEPS
    return PrintedQuantity(value, "/".join(words), kind, counts_steps, each, token.start(), text)


def _compound(text: str) -> float:
    parts = re.findall(r"([\d.,]+)[ ]?([^\W\d_]+)", text)
    return sum(float(number.strip(",").replace(",", ".")) * (seconds(unit) or 0) for number, unit in parts)


def _clock(text: str) -> float:
    *days, time = text.replace(",", ".").split("-")
    whole = sum(float(part) * 60**power for power, part in enumerate(reversed(time.split(":"))))
    return whole + sum(float(day) * 86400 for day in days)


def _number(text: str, line: str, decimal: str | None) -> float:
    """Return the value of a printed number. Raises NumberError if its marks have two readings, or none."""
    if text.lower() in ("nan", "inf"):
        return float(text)
    body = re.match(_BODY, text)[0]  # type: ignore[index]
    rest = text[len(body) :].strip()
    power = re.search(r"[-+]?\d+$", rest)
    factor = _MAGNITUDES.get(rest.lower().removesuffix("s"), _PREFIXES.get(rest, 1.0))
    if " " in body and decimal is None:
        raise NumberError(
            f"'{body}' may be one number or two, in '{line}'; one: add ARGS=\"program.decimal='.'\" (or ','); two: put "
            "what follows the first, or stands before the second, into the pattern"
        )
    digits = f"{re.sub(f'[{_SPACES}]', ' ', body)}e{power[0] if power else 0}"
    by_mark = {mark: parsed[0] for mark in ".," if (parsed := numerals.number(digits, mark))}
    if not by_mark:
        raise NumberError(f"'{text}' is not a number, in '{line}'")
    if len({*by_mark.values()}) > 1 and decimal is None and "," in body:
        raise NumberError(
            f"{body} may be {body.replace(',', '')} or {body.replace(',', '.')}, in '{line}'; "
            "add ARGS=\"program.decimal='.'\" or ARGS=\"program.decimal=','\""
        )
    return by_mark.get(decimal or ".", next(iter(by_mark.values()))) * factor


def conversion(unit: str, to: str) -> float | None:
    """Return the factor from one unit of a rate to another, that differs in its prefix or time; None if it cannot."""
    (work, *period), (to_work, *to_period) = (_divided(name)[0] for name in (unit, to))
    times = [_SECONDS.get(one, 1.0) for one in (*period, *to_period)]
    if len(period) != len(to_period) or (len(times) == 2 and not {*period, *to_period} <= _SECONDS.keys()):
        return None
    prefixes = _BINARY | _PREFIXES  # in this order: MiB is Mi B, not M iB
    for first, second in itertools.product(prefixes, prefixes):
        base = work.removeprefix(first)
        if base and (work, to_work) == (first + base, second + base):
            return prefixes[first] / prefixes[second] * (times[1] / times[0] if len(times) == 2 else 1.0)
    return None
