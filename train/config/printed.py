"""The rate that a user's program printed: what a pattern finds in its output, else the line of a known log.

A pattern is a regular expression in which `{rate}` or `{time}` stands for a number as programs print it: 1,234.5, 1.2k,
1.2e+03, 12,5 or, for a time, 0:01:30. Where a number has two readings, the error asks which one is right.
"""

import re
import statistics
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from common import logs
from record.schema import PrintedRate

PICKS: dict[str, Callable[[Sequence[float]], float]] = {
    "last": lambda rates: rates[-1],
    "median": statistics.median,
    "mean": statistics.harmonic_mean,  # of rates over equal work
    "sum": sum,  # of ranks that print a rate each
}
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
_TIME_WORDS = {
    "ms": "msec milliseconds",
    "s": "sec secs second seconds",
    "min": "mins minute minutes",
    "h": "hr hrs hour hours",
}
_TIME_NAMES = {word: unit for unit, words in _TIME_WORDS.items() for word in words.split()}
_TIMES = "|".join(sorted({*_SECONDS, *_TIME_NAMES}, key=len, reverse=True))
# Atomic, and not after a digit: no expression around it can take a part of a number.
_NUMBER = (
    r"(?<![\d])(?<!\d[.,])(?>[-+]?(?:\d+(?:[.,]\d+)*|[.,]\d+)(?:[eE][-+]?\d+)?(?:\s?[kKMGT]\b(?!/))?|(?i:nan|inf)\b)"
)
_CLOCK = r"(?<![\d:])(?>(?:\d+:)?\d+:\d\d(?:\.\d+)?)"
_TOKEN = re.compile(rf"{_CLOCK}|{_NUMBER}")
PLACEHOLDERS = {"{rate}": f"(?P<rate>{_NUMBER})", "{time}": f"(?P<time>{_CLOCK}|{_NUMBER})"}
_PREFIXES = {"k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
_UNIT = re.compile(
    r"[ \t]*([^\W\d_]+(?:-[^\W\d_]+)*(?:[ ]?(?:/|per)[ ]?[^\W\d_]+)?)?"
    r"(?:[ ]?(?:/|per)[ ]?(?P<each>rank|gpu|cpu|core|device|process|worker)\b)?",
    re.I,
)
_IS_TIME = re.compile(rf"(?:{_TIMES})(?:\s?(?:/|per)\s?\w+)?", re.I)
_COUNTS_STEPS = re.compile(r"(?:it|iters?|iterations?|(?:time)?steps?|batch|batches)/s", re.I)


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
        each_rank: what is printed is the rate of one rank.
        ranks, step_work: the ranks of the job; and the work of one step, or of one run, of all of them.
        work_unit: what `step_work` counts.
    """

    rate: str | None = None
    time: str | None = None
    unit: str | None = None
    pick: str | None = None
    skip: int = 0
    decimal: str | None = None
    each_rank: bool = False
    ranks: int = 1
    step_work: float = 1.0
    work_unit: str = "steps"


@dataclass(frozen=True)
class _PrintedNumber:
    value: float
    unit: str
    text: str  # the line
    of_step: bool = False  # a time, or a number of steps a second


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


def printed_rate(output: str, reading: Reading) -> PrintedRate:
    """Return the rate of the whole job that a program printed. Raises RateError."""
    text = logs.without_escapes(output)
    pattern = reading.rate or reading.time
    if pattern:
        kind, every = ("RATE" if reading.rate else "TIME"), _matches(text, reading)
    else:
        kind, every, reading = _known(text, reading)
    if not every:
        raise RateError(_no_rate(text, pattern))
    numbers = every[reading.skip :]
    if not numbers:
        raise RateError(f"{_count(every)} printed, and program.skip={reading.skip} leaves out all of them")
    if len(units := {one.unit for one in numbers}) > 1:
        raise RateError(f"rates in different units were printed, {' and '.join(sorted(units))}; match one of them")
    rates = [_rate(one, reading) for one in numbers]
    value = _picked(rates, numbers, reading)
    unit = f"{reading.work_unit}/s" if numbers[0].of_step else numbers[0].unit
    if reading.rate and reading.unit:
        unit = reading.unit
    number = f"{numbers[-1].value:g} {numbers[-1].unit}".strip()
    return PrintedRate(value, numbers[-1].text, kind, unit=unit, count=len(rates), number=number)


def _matches(text: str, reading: Reading) -> list[_PrintedNumber]:
    name = "rate" if reading.rate else "time"
    numbers = []
    for match in re.finditer(_expression(reading.rate or reading.time or ""), text, re.MULTILINE):
        group: str | int = name if name in match.re.groupindex else 1
        start, end = match.span(group)
        if start >= 0:
            begin = text.rfind("\n", 0, start) + 1
            numbers.append(_one(text[begin:].partition("\n")[0], start - begin, end - begin, reading))
    return numbers


def _one(row: str, start: int, end: int, reading: Reading) -> _PrintedNumber:
    """Return the number at row[start:end], whole and with its unit."""
    line = row.strip()
    token = next((token for token in _TOKEN.finditer(row) if token.start() < end and token.end() > start), None)
    if token is None:
        raise RateError(f"'{row[start:end]}' is not a number, in '{line}'")
    if token.start() < start or token.end() > end:
        name = "{rate}" if reading.rate else "{time}"
        raise RateError(
            f"the pattern takes {row[start:end]} of {token[0]}, in '{line}': put {name} in place of its group"
        )
    after = _UNIT.match(row, token.end())
    unit = (after[1] or "").replace(" ", "") if after else ""
    if reading.time:
        return _a_time(token[0], unit.partition("/")[0], line, reading)
    if _IS_TIME.fullmatch(unit):
        raise RateError(
            f"a time is printed, not a rate: {token[0]} {unit}, in '{line}'; give TIME= with {{time}} in place of RATE="
        )
    if after and after["each"] and not reading.each_rank:
        raise RateError(
            f"the rate of one {after['each']} is printed, in '{line}'; "
            "ARGS=program.each_rank=true multiplies it by the ranks"
        )
    unit = re.sub(r"(?i)(?<=/)(?:sec|seconds?)$", "s", re.sub(r"(?i)per", "/", unit))
    return _PrintedNumber(_number(token[0], line, reading.decimal), unit, line, bool(_COUNTS_STEPS.fullmatch(unit)))


def _a_time(token: str, unit: str, line: str, reading: Reading) -> _PrintedNumber:
    if ":" in token:
        *minutes, seconds = token.split(":")
        whole = sum(int(part) * 60**power for power, part in enumerate(reversed(minutes), 1))
        return _PrintedNumber(whole + float(seconds), "s", line, of_step=True)
    name = unit.lower() if unit.lower() in _SECONDS.keys() | _TIME_NAMES.keys() else reading.unit or ""
    scale = _SECONDS.get(_TIME_NAMES.get(name, name))
    if scale is None:
        raise RateError(
            f"no unit is printed after the time {token}, in '{line}'; add ARGS=program.unit=ms, or s, min, h"
        )
    return _PrintedNumber(_number(token, line, reading.decimal) * scale, "s", line, of_step=True)


def _number(token: str, line: str, decimal: str | None) -> float:
    """Return the value of a printed number. Raises RateError if its marks have two readings, or none."""
    if token.lower() in ("nan", "inf"):
        return float(token)
    factor = _PREFIXES.get(token[-1], 1.0)
    body, exponent = re.fullmatch(r"(.*?)([eE][-+]?\d+)?", token.rstrip("kKMGT").strip()).groups()  # type: ignore[union-attr]
    mark = _decimal_mark(body, token, line, decimal)
    thousands = "," if mark == "." else "."
    whole, _, fraction = body.partition(mark)
    grouped = thousands not in whole or re.fullmatch(rf"[-+]?\d{{1,3}}(?:{re.escape(thousands)}\d{{3}})+", whole)
    if not grouped or (fraction and not fraction.isdigit()):
        raise RateError(f"'{token}' is not a number, in '{line}'")
    return float(f"{whole.replace(thousands, '') or 0}.{fraction or 0}{exponent or ''}") * factor


def _decimal_mark(body: str, token: str, line: str, decimal: str | None) -> str:
    """Return the decimal mark of a number. Raises RateError if it may also separate thousands."""
    marks = [character for character in body if character in ".,"]
    if len(set(marks)) != 1:
        return marks[-1] if marks else "."
    mark = marks[0]
    if len(marks) > 1:
        return "," if mark == "." else "."
    if not re.fullmatch(r"[-+]?[1-9]\d{0,2}[.,]\d{3}", body):
        return mark
    if mark == "," and decimal is None:
        raise RateError(
            f"{token} may be {body.replace(',', '')} or {body.replace(',', '.')}, in '{line}'; "
            "add ARGS=\"program.decimal='.'\" or ARGS=\"program.decimal=','\""
        )
    return decimal or mark


# Logs whose line with the rate of the whole job is known: a pattern, and what else is known of it. Their own rows are
# found in each log, so the last or the median of the later ones counts.
_LINES: tuple[tuple[str, dict[str, Any]], ...] = (
    ("LAMMPS", {"rate": r"^Performance: .*?{rate} timesteps/s"}),
    ("GROMACS", {"rate": r"^Performance: +{rate} +[\d.]+$", "unit": "ns/day"}),
    ("HPCG", {"rate": r"HPCG result is VALID with a GFLOP/s rating of[=:] ?{rate}", "unit": "GFLOP/s"}),
    ("nccl-tests", {"rate": r"^# Avg bus bandwidth *: {rate}", "unit": "GB/s"}),
    ("Hugging Face's Trainer", {"rate": r"'train_samples_per_second': '?{rate}", "unit": "samples/s"}),
    ("DeepSpeed", {"rate": r"RunningAvgSamplesPerSec={rate}", "unit": "samples/s", "pick": "last"}),
    ("timm", {"rate": r"^Train: \d+ \[.*, +[\d.]+/s +\([\d.]+s, +{rate}/s\)", "unit": "images/s", "pick": "last"}),
    ("nanoGPT", {"time": r"^iter \d+: loss [\d.]+, time {time}ms", "pick": "median", "skip": 1}),
    (
        "PyTorch's imagenet example",
        {"time": r"^Epoch: \[\d+\]\[ *\d+/\d+\]\s+Time +{time} \(", "unit": "s", "pick": "median", "skip": 1},
    ),
    ("Lightning", {"rate": r"^Epoch \d+:.*100%.*, +{rate}it/s", "pick": "last"}),
)  # fmt: skip

# nanoGPT says the work of a step: more ranks do not add to it, unless its accumulated steps grow with them.
_TOKENS = re.compile(r"^tokens per iteration will be: ([\d,]+)$", re.MULTILINE)


def _known(text: str, reading: Reading) -> tuple[str, list[_PrintedNumber], Reading]:
    """Return the kind of a known log, its rates and times, and how they are read."""
    for kind, settings in _LINES:
        stated = {name: value for name, value in vars(reading).items() if value != getattr(Reading(), name)}
        own = replace(reading, **settings | stated)
        if numbers := _matches(text, own):
            if tokens := _TOKENS.search(text):
                own = replace(own, step_work=float(tokens[1].replace(",", "")), work_unit="tokens")
            return f"a log of {kind}", numbers, own
    kind, rows = logs.rows(text, "")
    numbers = []
    for row in rows:
        if speed := row.get("images_per_s"):
            numbers.append(
                _PrintedNumber(float(str(speed).partition(" ")[0]), "images/s", f"line {row['line']}: {speed} images/s")
            )
        elif step_s := row.get("step_s"):
            numbers.append(_PrintedNumber(float(step_s), "s", f"line {row['line']}: {step_s} s a step", of_step=True))
    return kind, numbers, reading


def _rate(number: _PrintedNumber, reading: Reading) -> float:
    if not 0 < number.value < float("inf"):
        raise RateError(f"{number.value:g} was printed, must be above 0: {number.text}")
    value = number.value
    if number.of_step:
        value = reading.step_work * (value if _COUNTS_STEPS.fullmatch(number.unit) else 1 / value)
    return value * (reading.ranks if reading.each_rank else 1)


def _picked(rates: list[float], numbers: list[_PrintedNumber], reading: Reading) -> float:
    if reading.pick == "sum" and len(rates) != reading.ranks:
        raise RateError(f"program.pick=sum adds a rate of each of {reading.ranks} ranks, and {_count(numbers)} printed")
    if reading.pick:
        return PICKS[reading.pick](rates)
    if len(set(rates)) > 1:
        lines = "\n".join(f"  {one.text}" for one in [*numbers[:3], *numbers[-1:]][: len(numbers)])
        raise RateError(
            f"{_count(numbers)} printed, and they differ:\n{lines}\n"
            "add ARGS=program.pick=last (or median, mean; sum: one of each rank), and leave out the first ones by "
            'ARGS="program.pick=median program.skip=10"'
        )
    return rates[0]


def _count(numbers: Sequence[_PrintedNumber]) -> str:
    return f"{len(numbers)} {'rate was' if len(numbers) == 1 else 'rates were'}"


def _no_rate(text: str, pattern: str | None) -> str:
    why = f"{pattern} matches no line of the output" if pattern else "this log is not known"
    lines = proposals(text)
    advice = "\n".join(["these would match:", *(f"  {line}" for line in lines)]) if lines else (
        "give RATE='text before the number {rate}', or TIME= with {time}"
    )  # fmt: skip
    return f"no rate was printed: {why}; {advice}"


def proposals(text: str) -> list[str]:
    """Return up to three settings, as RATE='speed: {rate}', for lines that look like rates or times; the best first."""
    shapes: Counter[tuple[bool, str]] = Counter()
    for row in text.splitlines():
        for token in _TOKEN.finditer(row):
            before = row[: token.start()]
            unit = _UNIT.match(row, token.end())
            name = ((unit[1] if unit else None) or "").replace(" ", "")
            label = re.search(r"[A-Za-z][\w /()-]*[:=]?\s*$", before)
            is_time = bool(_IS_TIME.fullmatch(name)) or bool(label and re.search(r"(?i)\btime[:=]?\s*$", label[0]))
            is_rate = bool(re.search(r"(?i)/s(ec|econds?)?$|/(?:day|h|hour)$", name))
            # A number within a label, as in "img/sec on 2 CPU(s): 20.4", counts something else.
            ends = label[0] if label and label[0].rstrip()[-1] in ":=" else ""
            named = re.search(r"(?i)throughput|per sec|/s\b|/sec|speed|rate\b|perf", ends)
            if (is_rate or named or is_time) and (label or name):
                placeholder = "{time}" if is_time and not named else "{rate}"
                context = re.sub(r"\d+", r"\\d+", re.escape(label[0]).replace("\\ ", " ")) if label else ""
                context = re.sub(r"  +", " +", context)  # before a number in a column
                after = "" if label or is_time else " ?" + re.escape(name)
                shapes[(placeholder == "{time}", f"{context}{placeholder}{after}")] += 1
    for kind, pattern in [shape for shape in shapes if " +{" in shape[1]]:  # it also finds the longest numbers
        shapes[kind, pattern] += shapes.pop((kind, pattern.replace(" +{", " {")), 0)
    ranked = sorted(shapes, key=lambda shape: (shape[0], "total" not in shape[1].lower(), -shapes[shape]))
    return [f"{'TIME' if is_time else 'RATE'}='{pattern}'" for is_time, pattern in ranked[:3] if "'" not in pattern]
