"""The launcher that is active: one at a time in a results folder, and one for each run in progress.

Two launches at once would disturb, and repeat, each other's measurements. The file system releases its lock when the
holder dies, however it dies. Some file systems have no locks between hosts, or none at all. So the file also names its
holder, and is touched regularly. So is a file in the folder of a run in progress: another terminal, and another host
that shares the folder, can see whether the run is still in progress.
"""

import errno
import fcntl
import os
import socket
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, Self

import msgspec
import psutil

from common import bounded_files as bounded
from common.periodic import repeating
from train.config.checks import ConfigError

_NAME, _RUNNING = ".launch", "running"
BEAT_S = 10.0
_DEAD_AFTER_S = 60.0  # without a beat, on another host: clocks differ, and shared folders are slow


@dataclass(frozen=True)
class Holder:
    """The process that launches in a folder."""

    host: str
    pid: int
    since: float  # seconds since the epoch: when it began

    @classmethod
    def this_process(cls) -> Self:
        """Return this process."""
        return cls(socket.gethostname(), os.getpid(), psutil.Process().create_time())

    def is_here(self) -> bool:
        """Return whether this process is on this host, and has not ended."""
        with suppress(psutil.Error):
            return psutil.Process(self.pid).create_time() == self.since
        return False


@contextmanager
def alone(folder: Path) -> Iterator[None]:
    """Return a context in which no other launch uses this folder.

    Raises ConfigError, which names the other launch, if there is one, and OSError if the folder cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    with _open(folder / _NAME) as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            locked = True
        except OSError as error:  # any but this one: a file system without locks
            locked = not isinstance(error, BlockingIOError)
        file.seek(0)
        holder = _holder(file.read())
        if not locked or (holder and _lives(holder, file, folder)):
            since = datetime.fromtimestamp(holder.since).isoformat(" ", "seconds") if holder else ""
            who = f"process {holder.pid} on {holder.host}, since {since}" if holder else "a process that has just begun"
            raise ConfigError(
                f"results={folder}: another launch is in progress there: {who}. Wait for it, end it, or take another "
                "folder: RESULTS=folder"
            )
        with bounded.named(folder / _NAME):
            file.seek(0)
            file.truncate()
            file.write(msgspec.json.encode(Holder.this_process()))
            file.flush()
        try:
            with _touched(file.fileno()):
                yield
        finally:
            with suppress(OSError):  # such as a disk that became read-only, which has its own error
                file.truncate(0)  # not removed: another launch may have it open


def _open(path: Path) -> BinaryIO:
    """Open the file for reading and writing, made for this user alone. Raises ConfigError if it is no regular file.

    In a folder that others may write to it could be a link to another file, or a pipe that never answers.
    """
    try:
        return bounded.open_regular(path, 0o600)
    except OSError as error:
        if error.errno not in (errno.EINVAL, errno.ELOOP, errno.ENXIO):
            raise
        raise ConfigError(
            f"{path}: must be a regular file, or none; somebody else may have made it: look at its folder"
        ) from error


def _holder(content: bytes) -> Holder | None:
    with suppress(msgspec.DecodeError):
        return msgspec.json.decode(content, type=Holder)
    return None


def _lives(holder: Holder, file: BinaryIO, folder: Path) -> bool:
    """Return whether a process whose lock this host does not see still launches."""
    if holder.host == socket.gethostname():
        return holder.pid != os.getpid() and holder.is_here()
    with tempfile.TemporaryFile(dir=folder) as now:  # by the clock of the file system: those of hosts differ
        return os.fstat(now.fileno()).st_mtime - os.fstat(file.fileno()).st_mtime < _DEAD_AFTER_S


def _touched(file: int | Path) -> AbstractContextManager[None]:
    """Return a context in which a file, or a descriptor of one, is touched regularly."""

    def touch() -> None:
        with suppress(OSError):  # a shared folder may be unavailable for a while
            os.utime(file)

    return repeating(touch, BEAT_S)


def note_begin(folder: Path) -> None:
    """Note in the folder of a run that this process is its launcher. Raises OSError."""
    (folder / _RUNNING).write_bytes(msgspec.json.encode(Holder.this_process()))


@contextmanager
def in_progress(folder: Path) -> Iterator[None]:
    """Return a context of the run in this folder, whose launcher is this process, until `end`. Raises OSError."""
    note_begin(folder)
    with _touched(folder / _RUNNING):
        yield


def note_end(folder: Path) -> None:
    """Note that the run has ended."""
    (folder / _RUNNING).unlink(missing_ok=True)


def is_on(folder: Path) -> bool:
    """Return whether the run in this folder is in progress."""
    try:
        holder = _holder(bounded.read(folder / _RUNNING))
        age_s = time.time() - (folder / _RUNNING).stat().st_mtime
    except OSError:
        return False
    if holder and holder.host != socket.gethostname():
        return age_s < _DEAD_AFTER_S
    return holder is not None and holder.is_here()
