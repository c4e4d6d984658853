"""The outcome of reproducing a report: the launcher writes it, the page of the analysis shows it."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

import msgspec

from common import bounded_files as bounded
from record import run_files as files

Status = Literal["measured", "not run", "failed", "submitted"]


@dataclass(frozen=True)
class ExperimentOutcome:
    """The outcome of one experiment of the report, and why."""

    experiment: str
    shows: str  # its description
    status: Status
    why: str = ""  # the reason if it did not run, or failed
    left_out: list[str] = field(default_factory=list)  # points that do not fit here, and why
    runs: int = 0  # launches that are measured
    planned: int = 0  # launches in all
    took_s: float = 0.0  # in this reproduction


@dataclass(frozen=True)
class Reproduction:
    """All experiments of one report."""

    report: str
    outcomes: list[ExperimentOutcome]


def reproduction_path(results: Path, report: str) -> Path:
    """Return the file of a reproduction: beside its records."""
    return results / f"reproduce-{report}.json"


def write_reproduction(reproduction: Reproduction, results: Path) -> Path:
    """Write the outcome beside the records; returns its path. A later reproduction replaces it, but not the records."""
    file = reproduction_path(results, reproduction.report)
    files.write_file(file, msgspec.json.format(msgspec.json.encode(reproduction), indent=1) + b"\n", replace=True)
    return file


def read_reproduction(results: Path, report: str) -> Reproduction | None:
    """Return the last reproduction of a report; None if none can be read."""
    try:
        return msgspec.json.decode(
            bounded.check_json(bounded.read(reproduction_path(results, report))), type=Reproduction
        )
    except (OSError, ValueError):
        return None
