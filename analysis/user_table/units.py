"""Units as people write them: "img/s", "tokens/s/GPU", "ms/step", "%", "min"."""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, replace
from typing import Literal

RANK = (
    r"(?:[abd-z]pus?|gcds?|ranks?|workers?|process(?:es)?|procs?|devices?|replicas?|accelerators?|cards?|chips?|tasks?)"
)
NODE = r"(?:nodes?|hosts?|machines?|servers?|instances?)"
CORE = r"(?:cores?|threads?|cpus?)"
_SECONDS = {
    "us µs μs": 1e-6, "ms msec milliseconds": 1e-3, "s sec secs second seconds": 1.0, "min mins minute minutes m": 60.0,
    "h hr hrs hour hours": 3600.0, "d day days": 86400.0,
}  # fmt: skip
TIMES = {name: seconds for names, seconds in _SECONDS.items() for name in names.split()}
TIME = f"(?:{'|'.join(sorted(TIMES, key=len, reverse=True))})"
CLOCKS = {"m:ss": 1.0, "mm:ss": 1.0, "h:mm": 60.0, "hh:mm": 60.0}  # of "43:05": the factor to minutes and seconds
SCALES = {"k": 1e3, "K": 1e3, "M": 1e6}
_STEPS = "steps?|its?|iter(?:ation)?s?|batch(?:es)?"
_WORK = {"images": "im(?:age|g)s?", "samples": "samples?|examples?", "tokens": "tok(?:en)?s?", "steps": _STEPS}
_ABBREVIATED = {"fps": "frames", "ips": "images", "tps": "tokens", "qps": "queries", "rps": "requests"}
_PER = r"\s*(?:/|\bper\b)\s*"
_RATE = re.compile(
    rf"(?:(?P<scale>(?-i:[kKM]))(?: |(?=im|tok|sample)))?(?P<work>[A-Za-z][A-Za-z-]*)?{_PER}"
    rf"(?:(?P<first>{RANK}){_PER})?(?P<time>{TIME})(?:{_PER}(?P<per>{RANK}|{NODE}|{CORE}))?",
    re.I,
)
Kind = Literal["time", "rate", "share", "ratio", "count", ""]


@dataclass(frozen=True)
class Unit:
    """A unit: the kind of its quantity ("": a plain number), and its factor to s, 1/s or a fraction.

    work: what a rate counts, as "images". per: "rank" or "node" of a rate of one; "step" or "epoch" of a time of one.
    """

    kind: Kind
    factor: float = 1.0
    work: str = ""
    per: str = ""
    text: str = ""


PLAIN = Unit("")
_EXACT = {"": PLAIN} | {name: Unit("", factor) for name, factor in SCALES.items()}
_EXACT |= dict.fromkeys(("%", "percent"), Unit("share", 0.01)) | dict.fromkeys(("x", "×", "times"), Unit("ratio"))
_EXACT |= {name: Unit("time", factor) for name, factor in (CLOCKS | {"h:mm:ss": 1.0, "hh:mm:ss": 1.0}).items()}


@functools.lru_cache(maxsize=1 << 12)
def read_unit(text: str) -> Unit | None:
    """Return the unit that a text is; None if it is none."""
    text = re.sub(r"\s+", " ", text.replace("_", " ")).strip(" .,;:")
    low = text.lower()
    if unit := _EXACT.get(text, _EXACT.get(low)):
        return replace(unit, text=text)
    if match := re.fullmatch(rf"({TIME})(?:{_PER}(?:(epoch)|{_STEPS}))?", low):
        return Unit("time", TIMES[match[1]], per=match[2] or ("step" if match[0] != match[1] else ""), text=text)
    if re.fullmatch(f"{RANK}|{NODE}|{CORE}", low):
        return Unit("count", text=text)
    if match := re.fullmatch(rf"(?:({'|'.join(_ABBREVIATED)})|([kmgtp]flop)s)(?:{_PER}({RANK}|{NODE}))?", low):
        return Unit("rate", work=_ABBREVIATED.get(match[1], work(match[2] or "")), per=_one(match[3]), text=text)
    if match := _RATE.fullmatch(text):
        factor = SCALES.get(match["scale"] or "", 1.0) / TIMES[match["time"].lower()]
        return Unit("rate", factor, work(match["work"] or ""), _one(match["per"] or match["first"]), text)
    return None


def known_work(counted: str) -> bool:
    """Return whether rates of this are of work that was done, as of images; not a bandwidth, or another word."""
    return counted in {*_WORK, "frames", "sequences"} or counted.endswith("FLOP") or work(counted) in _WORK


def work(counted: str) -> str:
    """Return the plain name of what a rate counts; as written if it has none."""
    if flop := re.fullmatch(r"(?i)([kmgtp]?)flops?", counted):
        return f"{flop[1].upper()}FLOP"
    return next((name for name, pattern in _WORK.items() if re.fullmatch(pattern, counted, re.I)), counted)


def _one(per: str | None) -> str:
    """Return "rank" or "node" for the word of one; a rate of one core is that of one rank."""
    return "" if not per else "node" if re.fullmatch(NODE, per, re.I) else "rank"
