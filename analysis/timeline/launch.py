"""A launch with a timeline, with the phases, steps and operations of all ranks on the clock of rank 0's host."""

from __future__ import annotations

import gzip
import hashlib
import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from analysis import TableError
from analysis.table.runs import has_timeline
from analysis.timeline import horovod
from analysis.timeline.horovod import HorovodTimeline
from train.record import protocol, record
from train.record.record import PHASES, Rank, RunRecord, StepAt


class Phase(NamedTuple):
    """A phase of the job, on one rank."""

    name: str
    begin_s: float
    end_s: float


class Operation(NamedTuple):
    """An operation of TensorFlow, or of a library that it calls."""

    thread: str
    name: str
    begin_us: float  # since `RankTimes.profiled_at`
    duration_us: float


@dataclass(frozen=True)
class RankTimes:
    """The times of one rank, in seconds since the epoch by the clock of rank 0's host."""

    rank: Rank
    phases: list[Phase]
    steps: list[StepAt]
    profiled_at: float
    operations: list[Operation]
    clock_error_s: float | None  # at most; None: not known, its own clock was taken


@dataclass(frozen=True)
class Launch:
    """One launch: its record, the times of its ranks, and Horovod's timeline."""

    run: RunRecord
    ranks: list[RankTimes]
    horovod: HorovodTimeline


def find_launches(records: Mapping[str, RunRecord], models: list[str] | None = None) -> list[Path]:
    """Return the paths, in order, of the newest complete record with a timeline of each run.

    records: by path. models: only these.
    """
    newest: dict[tuple[str, str, str, int], tuple[int, Path]] = {}
    for path, run in records.items():
        wanted = run.status == "complete" and has_timeline(run) and run.config["distribution"]["allreduce"]
        if wanted and (models is None or run.config["model"]["name"] in models):
            key = (run.experiment, run.point, run.config_hash, run.repeat)
            newest[key] = max(newest.get(key, (0, Path(path))), (run.generation, Path(path)))
    return sorted(path for _, path in newest.values())


def load_launch(path: Path, run: RunRecord) -> Launch:
    """Load the launch whose record `run` is at `path`.

    Raises TableError where a file beside it is missing or changed.
    """
    folder = path.parent
    operations = [protocol.operations_path(folder, rank.rank) for rank in run.ranks]
    for file in [protocol.horovod_timeline_path(folder), *operations]:
        _check(file, run.attachments.get(file.name))
    ranks = [_rank_times(rank, folder) for rank in run.ranks]
    return Launch(run, ranks, horovod.read(protocol.horovod_timeline_path(folder)))


def _check(path: Path, sha256: str | None) -> None:
    """Raise TableError where a file is not there, or not the one whose SHA-256 the record beside it has."""
    try:
        digest = hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}; a launch with a timeline leaves it beside its record") from error
    if digest != sha256:
        raise TableError(f"{path}: not the file of the record beside it: it was changed, or copied from another run")


def _rank_times(rank: Rank, folder: Path) -> RankTimes:
    if rank.timeline is None:
        raise TableError(f"{folder / record.RECORD_NAME}: rank {rank.rank} has no times of its steps")
    ahead_s = rank.timeline.ahead_s or 0.0
    with gzip.open(protocol.operations_path(folder, rank.rank), "rt") as file:
        profile = json.load(file)
    return RankTimes(
        rank=rank,
        phases=list(_phases(rank, rank.timeline.began_at + ahead_s)),
        steps=[_moved(step, ahead_s) for step in rank.timeline.steps],
        profiled_at=profile["began_at"] + ahead_s,
        operations=[Operation(*operation) for operation in profile["operations"]],
        clock_error_s=rank.timeline.error_s,
    )


def _phases(rank: Rank, began_s: float) -> Iterator[Phase]:
    """Yield the phases of a rank, one after the other; began_s: when its process began, the end of the first one."""
    names = [name for name in PHASES if name in rank.phases_s]
    at = began_s - rank.phases_s.get("start", 0.0)
    for name in names:
        yield Phase(name, at, at + rank.phases_s[name])
        at += rank.phases_s[name]


def _moved(step: StepAt, by_s: float) -> StepAt:
    computed_at = None if step.computed_at is None else step.computed_at + by_s
    return replace(step, begun_at=step.begun_at + by_s, computed_at=computed_at, ended_at=step.ended_at + by_s)
