"""The jobs that were submitted, kept beside their scripts: results/<experiment>/<launcher>/<job id>.json."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec

from train.record import files

RUNNING = "RUNNING"  # the state of a job that runs, under every batch system


@dataclass(frozen=True)
class Submitted:
    """One job that was submitted."""

    job_id: str
    nodes: int
    repeats: int
    homes: list[str]  # the folders of the points that it runs


def jobs_folder(home: Path, launcher: str) -> Path:
    """The folder of the scripts, logs and jobs of an experiment. home: of one of its points."""
    return home.parents[1].resolve() / launcher


def keep(folder: Path, job: Submitted) -> None:
    """Write the job into the folder. Raises OSError."""
    files.write_whole(folder / f"{job.job_id}.json", json.dumps(asdict(job)).encode())


def read(results: Path, launcher: str) -> list[Submitted]:
    """Every job that a launcher submitted for records below `results`. Names a file that is none on stderr."""
    jobs = []
    for path in sorted(results.glob(f"*/{launcher}/*.json")):
        try:
            jobs.append(msgspec.json.decode(path.read_bytes(), type=Submitted))
        except (OSError, msgspec.DecodeError, UnicodeError, RecursionError) as error:
            print(f"warning: {path}: no job of a launch: {error}; it is left out", file=sys.stderr)
    return jobs


def states_of_points(jobs: Sequence[Submitted], queue: Mapping[str, str]) -> dict[Path, str]:
    """The state of each point that a job in the queue will run; RUNNING where one of its jobs runs.

    queue: job id -> state, of the jobs that the batch system still has.
    """
    found: dict[Path, str] = {}
    for job in jobs:
        if (state := queue.get(job.job_id)) is not None:
            for home in map(Path, job.homes):
                if found.get(home) != RUNNING:
                    found[home] = state
    return found
