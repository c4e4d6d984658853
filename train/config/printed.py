"""The rate that a user's program printed: what a pattern finds in its output, else the line of a known log.

A pattern is a regular expression in which `{rate}` or `{time}` stands for a number as programs print it
(train/config/printed_numbers.py). Where a number has two readings, the error asks which one is right.
"""

import math
import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from common import logs
from record.schema import PrintedRate
from train.config import printed_numbers
from train.config.printed_numbers import NumberError, PrintedQuantity

PICKS: dict[str, Callable[[Sequence[float]], float]] = {
    "last": lambda rates: rates[-1],
    "median": statistics.median,
    "mean": statistics.harmonic_mean,  # of rates over equal work
    "sum": sum,  # of ranks that print a rate each
}
PLACEHOLDERS = {
    "{rate}": f"(?P<rate>{printed_numbers.ANY})",
    "{time}": f"(?P<time>{printed_numbers.ANY}{printed_numbers.TIME_UNIT})",
}
# A word on the line by which its number may be that of a rank alone.
_ONE_RANK = re.compile(
    r"(?i)(?:/|\bper[ -])(?:rank|gpu|cpu|core|device|proc(?:ess)?|worker|node|chip|thread)\b(?![-/])"  # no path
    r"|\b(?:rank|gpu|device|process|worker)\W{0,2}\d"
)
_RATE_LABEL = re.compile(
    r"(?i)throughput|per sec|/s\b|/sec|speed|(?<!learning )\brate\b|perf|\b(?:[tfiqr]ps|[kmgtp]?flops?)\b"
)
_TIME_LABEL = re.compile(r"(?i)(?:\b|_)(?:time|elapsed|real|took)[ :=]*(?:of )?$")


class RateError(ValueError):
    """The output of a program has no rate, or several readings: says what was printed, and what to type."""


@dataclass(frozen=True)
class Reading:
    """How the rate is read from the output of a program.

    Attributes:
        rate, time: the patterns, at most one of them; neither: the line of a known log.
        unit: of the rate, or of the time if none is printed after it.
        pick: one of `PICKS`, where several rates are printed.
        skip: how many of the first ones are left out, as warm-up.
        decimal: the decimal mark, which tells 1,234 from 1.234.
        each_rank: what is printed is the rate of one rank; None: not stated.
        ranks, step_work: the ranks of the job; and the work of one step, or of one run, of all of them.
        work_unit: what `step_work` counts.
    """

    rate: str | None = None
    time: str | None = None
    unit: str | None = None
    pick: str | None = None
    skip: int = 0
    decimal: str | None = None
    each_rank: bool | None = None
    ranks: int = 1
    step_work: float = 1.0
    work_unit: str = "steps"


@dataclass(frozen=True)
class _PrintedNumber:
    rate: float  # of the whole job
    unit: str
    number: str  # as read, with its unit
    line: str
    time_s: float | None = None  # if it is that of a step or a run


def problem(rate: str | None, time: str | None) -> str:
    """Return why these patterns cannot find a rate; "" if they can, or there is none."""
    if rate is not None and time is not None:
        return "give RATE or TIME, not both"
    for name, pattern in (("rate", rate), ("time", time)):
        if pattern is None:
            continue
        try:
            groups = re.compile(_expression(pattern)).groups
        except re.error as error:
            return f"not a regular expression: {error}"
        if f"{{{name}}}" not in pattern and groups != 1:
            return f"put {{{name}}} where the number is, as {name.upper()}='{name}: {{{name}}}'"
    return ""


def _expression(pattern: str) -> str:
    for placeholder, expression in PLACEHOLDERS.items():
        pattern = pattern.replace(placeholder, expression, 1)
    return pattern


def printed_rate(output: str, reading: Reading, running_s: float = math.inf, command: str = "") -> PrintedRate:
    """Return the rate of the whole job that a program printed. Raises RateError.

    running_s: how long it ran; no time of a part is longer. command: no number of it is proposed.
    """
    text = re.sub(r"\r\n?", "\n", logs.without_escapes(output))
    pattern = reading.rate or reading.time
    try:
        if pattern:
            kind, every = ("RATE" if reading.rate else "TIME"), _matches(text, reading)
        else:
            kind, every, reading = _known(text, reading)
    except NumberError as error:
        raise RateError(str(error)) from error
    if not every:
        raise RateError(_no_rate(text, pattern, command))
    counted = every[reading.skip :]
    if not counted:
        raise RateError(f"{_count(every)} printed, and program.skip={reading.skip} leaves out all of them")
    if len(units := {one.unit for one in counted}) > 1:
        which = " and ".join(sorted(units))
        raise RateError(f"rates in different units were printed, {which}; ARGS=program.unit= with one of them converts")
    for one in counted:
        if not 0 < one.rate < math.inf:
            raise RateError(f"{one.number} was printed, must be above 0: {one.line}")
        if one.time_s and one.time_s > running_s + _CLOCK_ERROR_S:
            raise RateError(f"{one.number} is more than the {running_s:.3g} s that the launch ran: {one.line}")
    value, last = _picked(counted, reading, asks=bool(pattern)), counted[-1]
    return PrintedRate(value, last.line, kind, unit=last.unit, count=len(counted), number=last.number)


_CLOCK_ERROR_S = 1.0  # programs print whole seconds


def _matches(text: str, reading: Reading, asks: bool = True) -> list[_PrintedNumber]:
    """Return the number of each match. asks: whose rate it is, where the line does not say it."""
    name = "rate" if reading.rate else "time"
    printed = []
    for match in re.finditer(_expression(reading.rate or reading.time or ""), text, re.MULTILINE):
        start, end = match.span(name if name in match.re.groupindex else 1)
        if start >= 0:
            begin = text.rfind("\n", 0, start) + 1
            row, matched = text[begin:].partition("\n")[0], (match.start() - begin, match.end() - begin)
            try:
                quantity = printed_numbers.quantity(row, start - begin, end - begin, matched, reading.decimal)
            except NumberError as error:
                raise NumberError("\n".join(filter(None, [str(error), _whose(row, "", reading, asks)]))) from error
            printed.append((_time if reading.time else _rate)(quantity, row.strip(), reading, asks))
    return printed


def _rate(quantity: PrintedQuantity, line: str, reading: Reading, asks: bool) -> _PrintedNumber:
    """Return a rate, from a number of work per time, of time per work, or without a unit."""
    number = f"{quantity.value:g} {quantity.unit}".strip()
    if quantity.kind == "time":
        raise RateError(f"a time is printed, not a rate: {number}, in '{line}'; give TIME= with {{time}}")
    if question := _whose(line, quantity.each, reading, asks):
        raise RateError(question)
    value, unit = quantity.value, quantity.unit
    if quantity.kind == "cost" and value > 0:
        value, unit = 1 / value, "/".join(reversed(unit.split("/")))
    if reading.unit and unit and "/" in unit and unit != reading.unit and not quantity.counts_steps:
        factor = printed_numbers.conversion(unit, reading.unit)
        if factor is None:
            raise RateError(f"{unit} is printed, which is not program.unit={reading.unit}, in '{line}'")
        value *= factor
    if quantity.counts_steps:
        value, unit = value * reading.step_work / (printed_numbers.seconds(unit.rpartition("/")[2]) or 1), ""
    unit = reading.unit or (f"{reading.work_unit}/s" if quantity.counts_steps else unit)
    several = reading.ranks if reading.each_rank and reading.pick != "sum" else 1
    return _PrintedNumber(value * several, unit, number, line)


def _whose(line: str, each: str, reading: Reading, asks: bool) -> str:
    """Return the question whose rate a line has; "" if that is clear, or stated."""
    match = _ONE_RANK.search(line)
    word = each or (match[0] if match else "")
    if not (asks and reading.rate and word) or reading.each_rank is not None or reading.pick == "sum":
        return ""
    return (
        f"'{word}' is on the line: the number may be the rate of one rank or the total, in '{line.strip()}'; add "
        f"ARGS=program.each_rank=true (of one: it is multiplied by {reading.ranks}) or false (total), or for a line of "
        "each rank ARGS=program.pick=sum"
    )


def _time(quantity: PrintedQuantity, line: str, reading: Reading, asks: bool) -> _PrintedNumber:
    """Return the rate of a number that is the time of a step or a run, or of a unit of work."""
    if quantity.kind == "rate":
        raise RateError(f"a rate is printed, not a time: {quantity.text} {quantity.unit}, in '{line}'; give RATE=")
    if quantity.kind == "cost" and not quantity.counts_steps:
        return _rate(quantity, line, replace(reading, unit=None), asks)
    unit = quantity.unit.partition("/")[0] or reading.unit or ""
    scale = 1.0 if quantity.kind == "time" else printed_numbers.seconds(unit)
    if scale is None and quantity.unit:
        raise RateError(f"'{quantity.unit}' after {quantity.text} is no unit of time, in '{line}'")
    if scale is None:
        raise RateError(
            f"no unit is printed after the time {quantity.text}, in '{line}'; add ARGS=program.unit=ms, or s, min, h"
        )
    time_s = quantity.value * scale
    rate = reading.step_work / time_s if time_s > 0 else 0.0
    return _PrintedNumber(rate, f"{reading.work_unit}/s", f"{time_s:g} s", line, time_s)


def _known(text: str, reading: Reading) -> tuple[str, list[_PrintedNumber], Reading]:
    """Return the kind of a known log, its rates or times, and how they are read."""
    log, lines = logs.read_log(text, ""), text.split("\n")
    own = replace(reading, pick=reading.pick or log.pick or None, skip=reading.skip or log.skip)
    printed = []
    for row in log.rows:
        line = lines[row["line"] - 1].strip()
        for name, read, usual in (("images_per_s", _rate, "images/s"), ("step_s", _time, "s")):
            if value := row.get(name):
                number, _, unit = value.partition(" ")
                shown = f"{number} {unit or usual}"
                quantity = printed_numbers.quantity(shown, 0, len(number), (0, len(shown)), ".")
                printed.append(read(quantity, line, own, asks=False))
                break
    return log.kind, printed, own


def _picked(printed: Sequence[_PrintedNumber], reading: Reading, asks: bool) -> float:
    """Return the rate of several. asks: which of them, also if all are equal."""
    rates = [one.rate for one in printed]
    if reading.pick == "sum" and len(rates) != reading.ranks:
        raise RateError(f"program.pick=sum adds a rate of each of {reading.ranks} ranks, and {_count(printed)} printed")
    if reading.pick:
        return PICKS[reading.pick](rates)
    if len(rates) > 1 and (asks or len(set(rates)) > 1):
        lines = "\n".join(f"  {one.line}" for one in [*printed[:3], *printed[-1:]][: len(printed)])
        raise RateError(
            f"{_count(printed)} printed:\n{lines}\n"
            "add ARGS=program.pick=last (or median, mean; sum: one of each rank), and leave out the first ones by "
            'ARGS="program.pick=median program.skip=10"'
        )
    return rates[0]


def _count(printed: Sequence[_PrintedNumber]) -> str:
    return f"{len(printed)} {'rate was' if len(printed) == 1 else 'rates were'}"


def _no_rate(text: str, pattern: str | None, command: str) -> str:
    why = f"{pattern} matches no line of the output" if pattern else "this log is not known"
    lines = proposals(text, command)
    advice = "\n".join(["these would match:", *(f"  {line}" for line in lines)]) if lines else (
        "give RATE='text before the number {rate}', or TIME= with {time}"
    )  # fmt: skip
    return f"no rate was printed: {why}; {advice}. If it is in a file, program.file= names it"


def proposals(text: str, command: str = "") -> list[str]:
    """Return up to three settings, as RATE='speed: {rate}', for lines that look like rates or times; the best first.

    None for a number that the command has too: the program may repeat its options.
    """
    options = {token[0] for token in printed_numbers.tokens(command)}
    shapes: Counter[tuple[bool, str]] = Counter()
    for row in text.splitlines():
        for token in printed_numbers.tokens(row):
            try:
                found = printed_numbers.quantity(row, *token.span(), token.span(), ".")
            except NumberError:
                continue
            label = re.search(r"[A-Za-z][\w /()-]*[:=]?\s*$", row[: token.start()])
            if token["clock"] and not (label and _TIME_LABEL.search(label[0])):
                continue  # the time of a day
            # A number within a label, as in "img/sec on 2 CPU(s): 20.4", counts something else.
            ends = label[0] if label and label[0].rstrip()[-1] in ":=" else ""
            named = bool(_RATE_LABEL.search(ends))
            is_time = found.kind in ("time", "cost") or bool(label and _TIME_LABEL.search(label[0]))
            either = found.counts_steps and "/" in found.unit and not label  # 1.11s/it at one size, 1.68it/s at another
            if token[0] not in options and (found.kind == "rate" or named or is_time) and (label or found.unit):
                placeholder = "{time}" if is_time and not named and not either else "{rate}"
                context = re.sub(r"\d+", r"\\d+", re.escape(label[0]).replace("\\ ", " ")) if label else ""
                context = re.sub(r"  +", " +", context).replace("\\\t", r"\s")  # before a number in a column
                unit = re.escape(row[token.end() :].split()[0]) if not label and found.unit else ""
                if either:
                    unit = "(?:{0}/{1}|{1}/{0})".format(*sorted(found.unit.split("/")))
                shapes[(placeholder == "{time}", f"{context}{placeholder}{' ?' * bool(unit)}{unit}")] += 1
    for kind, pattern in [shape for shape in shapes if " +{" in shape[1]]:  # it also finds the longest numbers
        shapes[kind, pattern] += shapes.pop((kind, pattern.replace(" +{", " {")), 0)
    ranked = sorted(shapes, key=lambda shape: (shape[0], "total" not in shape[1].lower(), -shapes[shape]))
    return [f"{'TIME' if is_time else 'RATE'}='{pattern}'" for is_time, pattern in ranked[:3] if "'" not in pattern]
