"""What a reproduction of a report came to: the launcher writes it, the page of the analysis shows it."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from train.record import files

Status = Literal["measured", "not run", "failed", "submitted"]


@dataclass(frozen=True)
class Outcome:
    """One experiment of the report: what became of it, and why."""

    experiment: str
    shows: str  # what it is, and which figures of the report
    status: Status
    why: str = ""  # it did not run, or failed
    left_out: list[str] = field(default_factory=list)  # points of it that do not fit here, and why
    runs: int = 0  # launches that are measured
    planned: int = 0  # launches in all
    took_s: float = 0.0  # this time


@dataclass(frozen=True)
class Reproduction:
    """All experiments of one report."""

    report: str
    outcomes: list[Outcome]


def path(results: Path, report: str) -> Path:
    """Where it is kept: beside the records that it is about."""
    return results / f"reproduce-{report}.json"


def write(found: Reproduction, results: Path) -> Path:
    """Put it beside the records, whole; returns where. A later one replaces it: the records themselves stay."""
    there = path(results, found.report)
    results.mkdir(parents=True, exist_ok=True)
    files.write_whole(there, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    return there


def read(results: Path, report: str) -> Reproduction | None:
    """What the last reproduction of a report came to; None where there is none that can be read."""
    try:
        return msgspec.json.decode(path(results, report).read_bytes(), type=Reproduction)
    except (OSError, msgspec.DecodeError):
        return None
