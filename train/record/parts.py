"""The measurements of one rank so far: appended to its file as they come, read back by the launcher.

A line of the file is a JSON object with the fields that are new. Whatever ends the rank, all that it measured before
is there; a last line that was cut off is left out.
"""

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from train.record import protocol, usage
from train.record.record import (
    AllreduceTimes,
    CoreUse,
    Environment,
    Epoch,
    Failure,
    MatrixProduct,
    PrintedRate,
    RankTimeline,
    Resize,
    Transfer,
    Usage,
    Window,
    Work,
)


@dataclass
class Part:
    """One rank's measurements. Rank 0 speaks for the job where all ranks know the same. Times in seconds."""

    rank: int = 0
    local_rank: int = 0
    node: int = 0
    host: str = ""
    began_at: float = 0.0  # of the process, seconds since the epoch
    cores: list[int] = field(default_factory=list)
    gpu: str | None = None
    workers: int = 1
    phase: str = "start"  # that it is in, or ended in
    phases_s: dict[str, float] = field(default_factory=dict)  # that it has left so far
    warm_up_step_times_s: list[float] = field(default_factory=list)
    step_times_s: list[float] = field(default_factory=list)
    compute_times_s: list[float] = field(default_factory=list)
    losses: list[float] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    allreduces: list[AllreduceTimes] = field(default_factory=list)
    transfers: list[Transfer] = field(default_factory=list)
    windows: list[Window] = field(default_factory=list)
    exchanges: list[Window] = field(default_factory=list)
    timed_cores: CoreUse | None = None
    matrix_products: list[MatrixProduct] = field(default_factory=list)
    timeline: RankTimeline | None = None
    samples: list[usage.Sample] = field(default_factory=list)
    peak_memory_bytes: int = 0
    environment: Environment | None = None
    resizes: list[Resize] = field(default_factory=list)
    weights_differ: bool | None = None
    work: Work | None = None
    printed: PrintedRate | None = None
    notes: list[str] = field(default_factory=list)
    arms_left_out: dict[str, str] = field(default_factory=dict)
    attachments: dict[str, str] = field(default_factory=dict)  # file name -> SHA-256
    failure: Failure | None = None
    finished: bool = False  # the rank did all that it was asked for

    @property
    def usage(self) -> Usage | None:
        """Return the usage of the rank, sample by sample; None without samples."""
        return usage.usage_columns(self.samples)


def _merge(into: dict[str, Any], new: dict[str, Any]) -> None:
    """Lists are extended in place, dictionaries updated; all else is replaced."""
    for name, value in new.items():
        if isinstance(value, list):
            into.setdefault(name, []).extend(value)
        elif isinstance(value, dict) and isinstance(into.get(name), dict):
            into[name] = into[name] | value
        else:
            into[name] = value


class PartWriter:
    """Collects one rank's part, and appends each addition to the rank's file once there is a run folder."""

    def __init__(self, path: Path | None = None, **first: Any) -> None:
        """Begin with these fields of a Part. The file is made with the first addition."""
        self.part = Part()
        self._path = path
        self._unwritten: list[str] = []  # lines from before there was a folder
        self.add(**first)

    def add(self, **fields: Any) -> None:
        """Add fields of a Part: lists are extended, dictionaries updated, all else is replaced.

        Never call it inside a timed window. Raises ValueError for a number that is not finite, TypeError for a name
        that a Part does not have, OSError if the file cannot be written.
        """
        if unknown := fields.keys() - Part.__dataclass_fields__.keys():
            raise TypeError(f"{', '.join(sorted(unknown))}: no field of a Part")
        line = json.dumps(msgspec.to_builtins(fields, enc_hook=lambda number: number.item()), allow_nan=False)
        mine: dict[str, Any] = {name: getattr(self.part, name) for name in fields}
        _merge(mine, fields)
        for name, value in mine.items():
            setattr(self.part, name, value)
        self._unwritten.append(line)
        self._append()

    def append_to(self, path: Path) -> None:
        """Append to this file from now on, beginning with all that was added so far."""
        self._path = path
        self._append()

    def _append(self) -> None:
        if self._path is None:
            return
        with self._path.open("a") as file:
            file.write("".join(f"{line}\n" for line in self._unwritten))
            file.flush()
            os.fsync(file.fileno())
        self._unwritten.clear()


class PartReader:
    """Reads one rank's file while it grows: each call only what was added since the one before."""

    def __init__(self, path: Path) -> None:
        """Nothing is read yet."""
        self._path, self._offset = path, 0
        self._values: dict[str, Any] = {}
        self._part = Part()

    def read(self) -> Part:
        """Return the part so far; a line that is not whole is left out, and what follows it. Raises OSError."""
        if self._path.stat().st_size == self._offset:
            return self._part
        with self._path.open("rb") as file:
            file.seek(self._offset)
            lines, _, _ = file.read().rpartition(b"\n")
        for line in lines.splitlines():
            try:
                new = msgspec.json.decode(line, type=dict[str, Any])
            except msgspec.DecodeError:
                break
            _merge(self._values, new)
            self._offset += len(line) + 1
        self._part = msgspec.convert(self._values, Part)
        return self._part


def read_part(path: Path) -> Part:
    """Return the part in one file; a line that is not whole is left out, and what follows it. Raises OSError."""
    return PartReader(path).read()


def read(folder: Path) -> list[Part]:
    """Return the part of each rank in the run folder, by rank.

    If several processes had the number of a rank, as in elastic training, that of one that finished, else of the one
    that wrote last: the others are gone, even if they began later.
    """
    parts: dict[int, tuple[bool, int, Part]] = {}
    for path in protocol.part_paths(folder):
        part = read_part(path)
        candidate = (part.finished, path.stat().st_mtime_ns, part)
        if part.rank not in parts or parts[part.rank][:2] < candidate[:2]:
            parts[part.rank] = candidate
    return [parts[rank][-1] for rank in sorted(parts)]


def first_failure(parts: list[Part]) -> Failure | None:
    """Return the failure that the others follow from: one that is a consequence counts only if there is no other."""
    failures = [part.failure for part in parts if part.failure]
    return next((failure for failure in failures if not failure.consequence), next(iter(failures), None))
