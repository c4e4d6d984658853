"""Units as people write them: "img/s", "tokens/s/GPU", "ms/step", "%", "min"."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

RANK = (
    r"(?:[gtnhixd]pus?|gcds?|dcus?|ranks?|workers?|process(?:es)?|procs?|devices?|replicas?|accelerators?|cards?|chips?"
    r"|learners?|trainers?|slots?|tasks?|executors?|pods?)"
)
NODE = r"(?:nodes?|hosts?|machines?|servers?|instances?|vms?)"
CORE = r"(?:cores?|threads?|cpus?)"
_SECONDS = {
    "us µs usec microseconds": 1e-6, "ms msec msecs millisecond milliseconds": 1e-3,
    "s sec secs second seconds": 1.0, "min mins minute minutes m": 60.0, "h hr hrs hour hours": 3600.0,
    "d day days": 86400.0,
}  # fmt: skip
TIMES = {name: seconds for names, seconds in _SECONDS.items() for name in names.split()}
TIME = f"(?:{'|'.join(sorted(TIMES, key=len, reverse=True))})"
CLOCKS = {"m:ss": 1.0, "mm:ss": 1.0, "h:mm": 60.0, "hh:mm": 60.0}  # of "43:05": the factor to minutes and seconds
SCALES = {"k": 1e3, "K": 1e3, "M": 1e6, "million": 1e6, "B": 1e9}
_WORK = {
    "images": "im(?:age|g)s?", "samples": "samples?|examples?|exs?", "tokens": "tok(?:en)?s?", "words": "words?",
    "sequences": "seq(?:uence)?s?|sent(?:ence)?s?", "frames": "frames?", "epochs": "epochs?",
    "steps": "steps?|its?|iter(?:ation)?s?|batch(?:es)?",
}  # fmt: skip
_ABBREVIATED = {
    "fps": "frames", "ips": "images", "tps": "tokens", "qps": "queries", "wps": "words", "hz": "", "tgs": "tokens",
    "mflops": "MFLOP", "gflops": "GFLOP", "tflops": "TFLOP", "pflops": "PFLOP",
}  # fmt: skip
_PER = r"\s*(?:/|\bper\b)\s*"
_RATE = re.compile(
    rf"(?:(?P<scale>k|K|M|million)(?: |(?=img|image|tok|sample)))?(?P<work>[A-Za-z][A-Za-z-]*)?{_PER}"
    rf"(?P<time>(?i:{TIME}))(?:{_PER}(?P<per>(?i:{RANK}|{NODE}|{CORE})))?"
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


def read(text: str) -> Unit | None:
    """Return the unit that a text is; None if it is none."""
    text = re.sub(r"\s+", " ", text.replace("_", " ")).strip(" .,;:")
    low = text.lower()
    if not low or text in SCALES:
        return Unit("", SCALES.get(text, 1.0), text=text)
    if low in ("%", "percent", "per cent", "pct"):
        return Unit("share", 0.01, text=text)
    if low in ("x", "×", "times", "fold"):
        return Unit("ratio", text=text)
    if low in CLOCKS or low in ("h:mm:ss", "hh:mm:ss"):
        return Unit("time", CLOCKS.get(low, 1.0), text=text)
    if match := re.fullmatch(rf"({TIME})(?:{_PER}(epoch|{_WORK['steps']}))?", low):
        per = "" if not match[2] else "epoch" if match[2] == "epoch" else "step"
        return Unit("time", TIMES[match[1]], per=per, text=text)
    if match := re.fullmatch(rf"(\w+)(?:{_PER}({RANK}|{NODE}))?", low):
        if match[1] in _ABBREVIATED:
            per = "rank" if match[1] == "tgs" else _one(match[2] or "")
            return Unit("rate", work=_ABBREVIATED[match[1]], per=per, text=text)
        if re.fullmatch(f"{RANK}|{NODE}|{CORE}", low):
            return Unit("count", text=text)
    by_rank = re.sub(rf"(?i)^([a-z]+){_PER}({RANK}){_PER}({TIME})$", r"\1/\3/\2", text)
    if match := _RATE.fullmatch(by_rank):
        factor = SCALES.get(match["scale"] or "", 1.0) / TIMES[match["time"].lower()]
        return Unit("rate", factor, work(match["work"] or ""), _one(match["per"] or ""), text)
    return None


def work(counted: str) -> str:
    """Return the plain name of what a rate counts; as written if it has none."""
    flop = re.fullmatch(r"(?i)([kmgtp]?)flops?", counted)
    known = (name for name, pattern in _WORK.items() if re.fullmatch(pattern, counted, re.I))
    return f"{flop[1].upper()}FLOP" if flop else next(known, counted)


def _one(per: str) -> str:
    """Return "rank" or "node" for the word of one; a rate of one core is that of one rank."""
    return "" if not per else "node" if re.fullmatch(NODE, per, re.I) else "rank"
