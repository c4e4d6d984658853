"""The measurements of one rank so far, each appended to its file at once; and one record from the parts of all ranks.

A line of the file is a JSON object with the new fields. However the rank ends, the file has all measurements before
that; an incomplete last line is ignored. The record is complete, or failed with all measurements until then.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from common import bounded_files as bounded
from record import protocol, record_summary
from record import run_files as files
from record import schema as records
from record.schema import Failure, Rank, RunRecord, Server, Usage

Process = TypeVar("Process", Rank, Server)

# Fields of the whole job, from rank 0's part.
_JOB_FIELDS = (
    *("environment", "losses", "epochs", "weights_differ", "work", "printed", "program"),
    *("notes", "arms_left_out", "untimed_steps", "attachments"),
)


@dataclass
class RankPart:
    """One rank's measurements; rank 0 also has those that are the same on all ranks. Times in seconds."""

    rank: int = 0
    local_rank: int = 0
    node: int = 0
    host: str = ""
    began_at: float = 0.0  # of the process, seconds since the epoch
    cores: list[int] = field(default_factory=list)
    gpu: str | None = None
    workers: int = 1
    phase: str = "start"  # the present or last one
    phases_s: dict[str, float] = field(default_factory=dict)  # of the phases that have ended
    warm_up_step_times_s: list[float] = field(default_factory=list)
    step_times_s: list[float] = field(default_factory=list)
    compute_times_s: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    epochs: list[records.Epoch] = field(default_factory=list)
    allreduces: list[records.AllreduceTimes] = field(default_factory=list)
    transfers: list[records.Transfer] = field(default_factory=list)
    windows: list[records.Window] = field(default_factory=list)
    exchanges: list[records.Window] = field(default_factory=list)
    disturbances: list[float | None] = field(default_factory=list)  # of each round, on the rank where it was largest
    timed_cores: records.CoreUse | None = None
    matrix_products: list[records.MatrixProduct] = field(default_factory=list)
    timeline: records.RankTimeline | None = None
    samples: list[record_summary.Sample] = field(default_factory=list)
    peak_memory_bytes: int = 0
    environment: records.Environment | None = None
    weights_differ: bool | None = None
    work: records.Operations | None = None
    printed: records.PrintedRate | None = None
    program: records.ProgramFacts | None = None
    notes: list[str] = field(default_factory=list)
    arms_left_out: dict[str, str] = field(default_factory=dict)
    untimed_steps: dict[str, int] = field(default_factory=dict)
    attachments: dict[str, str] = field(default_factory=dict)  # file name -> SHA-256
    failure: Failure | None = None
    finished: bool = False  # the rank has done all of its task

    @property
    def usage(self) -> Usage | None:
        """Return the usage of the rank, sample by sample; None without samples."""
        return record_summary.usage_columns(self.samples)


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    """Extend lists in place, update dictionaries, and replace all else."""
    for name, value in new.items():
        if isinstance(value, list):
            into.setdefault(name, []).extend(value)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            into[name] = into[name] | value
        else:
            into[name] = value


class PartWriter:
    """Collects one rank's part, and appends each addition to the rank's file once there is a run folder."""

    def __init__(self, path: Path | None = None, **initial: Any) -> None:
        """Begin with these fields of a RankPart. The file is made with the first addition."""
        self.part = RankPart()
        self._path = path
        self._unwritten: list[str] = []  # lines from before the folder existed
        self.add(**initial)

    def add(self, **fields: Any) -> None:
        """Add fields of a RankPart: lists are extended, dictionaries updated, all else is replaced.

        Never call it inside a timed window. Raises ValueError for a number that is not finite, TypeError for a name
        that a RankPart does not have, OSError if the file cannot be written.
        """
        if unknown := fields.keys() - RankPart.__dataclass_fields__.keys():
            raise TypeError(f"{', '.join(sorted(unknown))}: no field of a RankPart")
        line = json.dumps(msgspec.to_builtins(fields, enc_hook=lambda number: number.item()), allow_nan=False)
        values: dict[str, Any] = {name: getattr(self.part, name) for name in fields}
        _merge(values, fields)
        for name, value in values.items():
            setattr(self.part, name, value)
        self._unwritten.append(line)
        self._append()

    def append_to(self, path: Path) -> None:
        """Append to this file from now on, beginning with all earlier additions."""
        self._path = path
        self._append()

    def _append(self) -> None:
        if self._path is None:
            return
        files.append(self._path, "".join(f"{line}\n" for line in self._unwritten).encode())
        self._unwritten.clear()


class PartReader:
    """Reads one rank's file while it grows: each call reads only the lines since the last one."""

    def __init__(self, path: Path) -> None:
        """Read nothing yet."""
        self._path, self._offset = path, 0
        self._values: dict[str, Any] = {}
        self._part = RankPart()

    def read(self) -> RankPart:
        """Return the part so far; an incomplete line, and lines after it, are ignored. Raises OSError."""
        if self._path.stat().st_size == self._offset:
            return self._part
        self._offset += _extend(self._values, bounded.read(self._path, begin=self._offset))
        self._part = msgspec.convert(self._values, RankPart)
        return self._part


def _extend(values: dict[str, Any], content: bytes) -> int:
    """Merge the whole lines of a file, up to the first that is none, into values; return their length in bytes.

    A line with a value of another type is the failure of its rank.
    """
    read_bytes = 0
    for line in content.rpartition(b"\n")[0].splitlines():
        try:
            new = msgspec.json.decode(bounded.check_json(line), type=dict[str, Any])
        except ValueError:
            break
        try:
            msgspec.convert(new, RankPart)
        except msgspec.ValidationError as error:
            reason = f"the file of the rank is damaged: {error}"
            values["failure"] = {"reason": reason} | {key: values.get(key) for key in ("rank", "host", "phase")}
            break
        _merge(values, new)
        read_bytes += len(line) + 1
    return read_bytes


def decoded_part(content: bytes) -> RankPart:
    """Return the part in a file's content, as `read_part` does."""
    values: dict[str, Any] = {}
    _extend(values, content)
    return msgspec.convert(values, RankPart)


def read_part(path: Path) -> RankPart:
    """Return the part in one file; an incomplete line, and lines after it, are ignored. Raises OSError."""
    return PartReader(path).read()


def read_parts(folder: Path) -> dict[Path, RankPart]:
    """Return the part of each rank in the run folder by its file, in the order of ranks. Raises OSError.

    If several processes had the number of a rank, as where a folder holds files of an earlier launch, the part is that
    of one that finished, else of the one that wrote last.
    """
    parts: dict[int, tuple[bool, int, Path, RankPart]] = {}
    for path in protocol.part_paths(folder):
        part = read_part(path)
        candidate = (part.finished, path.stat().st_mtime_ns, path, part)
        if part.rank not in parts or parts[part.rank][:2] < candidate[:2]:
            parts[part.rank] = candidate
    return {parts[rank][2]: parts[rank][3] for rank in sorted(parts)}


def first_failure(parts: list[RankPart]) -> Failure | None:
    """Return the failure that caused the others; a consequence counts only if there is no other failure."""
    failures = [part.failure for part in parts if part.failure]
    return next((failure for failure in failures if not failure.consequence), next(iter(failures), None))


def identity(assignment: protocol.Assignment, config: dict[str, Any]) -> dict[str, Any]:
    """Return the fields of the record that an assignment determines; config: as the record keeps it."""
    return assignment.identity | {
        "repeat": assignment.repeat,
        "config": config,
        "config_hash": assignment.config_hash,
        "source_digest": files.source_digest(assignment.source),
        "rounds_end_s": assignment.config["rounds_end_s"] if config.get("rounds") else None,
        "enough_rounds": assignment.rounds.enough_rounds,
    }


@dataclass(frozen=True)
class JobEnd:
    """The end of a job, for its record. Times in seconds."""

    started_at: float  # since the epoch
    job_s: float
    cores_shared: bool  # ranks competed for a core
    supervised: bool = True  # by a launcher: phases add up to job_s; by hand they end with the rank's last line
    failure: Failure | None = None
    node_quotas: Sequence[records.NodeQuota] = ()
    attachments: Mapping[str, str] = field(default_factory=dict)  # beside those of rank 0
    sources: Mapping[str, str] = field(default_factory=dict)  # as RunRecord has them
    ledger_line: str = ""
    ended_at: str = ""


def assemble(parts: Sequence[RankPart], identity: Mapping[str, Any], job_end: JobEnd) -> RunRecord:
    """Return the record of a run. It is complete if neither the launcher nor a rank reports a failure.

    identity: the fields of the record that are known before the launch, as `identity` returns them.
    """
    failure = job_end.failure or first_failure(list(parts))
    first = parts[0] if parts else RankPart()
    trained = [part for part in parts if part.workers]
    record = RunRecord(
        **identity,
        status="failed" if failure else "complete",
        failure=failure,
        started_at=datetime.fromtimestamp(job_end.started_at, UTC).isoformat(timespec="seconds"),
        job_s=job_end.job_s,
        cores_shared=job_end.cores_shared,
        ranks=[
            _rank(part, usage, job_end)
            for part, usage in zip(trained, record_summary.thinned_usage([part.usage for part in trained]), strict=True)
        ],
        servers=[_process(Server, part) for part in parts if not part.workers],
        node_quotas=list(job_end.node_quotas),
        schema_version=records.SCHEMA_VERSION,
        **{name: getattr(first, name) for name in _JOB_FIELDS},
    )
    if moved := moves(trained):
        record.cores_shared, record.notes = True, [*record.notes, *moved]
    record.attachments |= job_end.attachments
    record.sources = dict(job_end.sources)
    record.ledger_line, record.ended_at = job_end.ledger_line, job_end.ended_at
    record.summary = record_summary.record_summary(record)
    return record


def moves(ranks: Iterable[RankPart | Rank]) -> list[str]:
    """Return a line for each rank that somebody else bound to other CPUs while it was timed."""
    lines = []
    for rank in ranks:
        spans = [rank.timed_cores, *(window.cores for window in rank.windows)]
        if cpus := sorted({cpu for span in spans if span for cpu in span.moved_to or ()}):
            bound, now = (", ".join(map(str, cores)) for cores in (rank.cores, cpus))
            lines.append(f"rank {rank.rank} on {rank.host} was moved from core {bound} to {now} while it was timed")
    return lines


def _process(kind: type[Process], part: RankPart, **others: Any) -> Process:
    """Return a rank or a server of a record: these fields, and the others from its part."""
    names = [item.name for item in fields(kind) if item.name not in others]
    return kind(**{name: getattr(part, name) for name in names}, **others)


def _rank(part: RankPart, usage: Usage | None, job_end: JobEnd) -> Rank:
    """Return the rank of a part, with these samples of its usage.

    The time that it did not book belongs to `exit`, or to its last phase if it did not finish.
    """
    phases_s = dict(part.phases_s)
    if job_end.supervised:
        phase = "exit" if part.finished or part.failure else part.phase
        phases_s[phase] = phases_s.get(phase, 0.0) + max(0.0, job_end.job_s - sum(phases_s.values()))
    return _process(Rank, part, phases_s=phases_s, usage=usage)
