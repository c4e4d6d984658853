"""The ledger of a point: a line when a launch begins and one when it ends, each with the digest of the line before.

It is in the folder of the point, whose launches run one after the other: jobs of a batch system need no common lock. A
record names the line that its launch began with. So a launch that was dropped, repeated or renumbered shows. run.json
names the last line in the ledger of each point of its plan: what came before a launch can be removed or changed only
with that launch.
"""

import codecs
import fcntl
import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec

from common import bounded_files as bounded
from record import protocol
from record import run_files as files
from record.schema import RECORD_NAME, RunRecord

NAME = "ledger.jsonl"


class Line(msgspec.Struct, frozen=True, omit_defaults=True):
    """One line: a launch began or ended, or was skipped. Digests are SHA-256, hexadecimal."""

    event: Literal["begin", "end", "skip"]
    repeat: int
    generation: int = 0  # 0: skipped
    at: str = ""  # UTC, ISO 8601
    previous: str = ""  # the digest of the line before; "": the first
    plan: str = ""  # of a beginning: the digest of the plan of its command
    run: str = ""  # of a beginning: the digest of run.json
    status: str = ""  # of an end: that of the record
    record: str = ""  # of an end: the digest of the record
    reason: str = ""  # of a launch that is skipped


def plan_digest(plan: Sequence[str]) -> str:
    """Return the digest of the launches of a plan, in order."""
    return hashlib.sha256(msgspec.json.encode(plan)).hexdigest()


def states(experiment: Path, points: Iterable[str]) -> dict[str, tuple[int, str, str]]:
    """Return how many lines the ledger of each of these points has, and the digests of the first and the last one.

    experiment: the folder of the points. Only whole lines count. Points without a line are left out.
    """
    by_point = {}
    for point in dict.fromkeys(points):
        with suppress(OSError):
            content = bounded.read(experiment / point / NAME, links=False).rpartition(b"\n")[0]
            if texts := _texts(content):
                first, last = (hashlib.sha256(texts[index]).hexdigest() for index in (0, -1))
                by_point[point] = len(texts), first, last
    return by_point


def begin(run: Path, repeat: int, generation: int, plan: Sequence[str] = ()) -> str:
    """Note that the launch in the folder `run`, which has its assignment, begins; return the line's digest.

    Raises OSError.
    """
    assignment = files.digest(protocol.assignment_path(run))
    return append(run.parent, Line("begin", repeat, generation, plan=plan_digest(plan), run=assignment))


def end(run: Path, record: RunRecord) -> None:
    """Note that the launch in the folder `run`, whose record this is, has ended when that says. Raises OSError."""
    digest = files.digest(run / RECORD_NAME)
    line = Line("end", record.repeat, record.generation, record.ended_at, status=record.status, record=digest)
    append(run.parent, line)


def now() -> str:
    """Return the time as ledger and records have it: UTC, ISO 8601, whole seconds."""
    return datetime.now(UTC).isoformat(timespec="seconds")


def append(point: Path, line: Line) -> str:
    """Append a line to the ledger of a point, with the digest of the line before; return its digest.

    It has the present time, if it has none.

    A last line that a crash cut short is kept, and ended. Raises OSError, also if it is a pipe or a link.
    """
    with bounded.named(point / NAME), bounded.open_regular(point / NAME, 0o666) as file:
        with suppress(OSError):  # a file system without locks
            fcntl.flock(file, fcntl.LOCK_EX)
        content = file.read()
        before = _texts(content)[-1:]
        previous = hashlib.sha256(before[0]).hexdigest() if before else ""
        text = msgspec.json.encode(msgspec.structs.replace(line, at=line.at or now(), previous=previous))
        file.write((b"\n" if content and not content.endswith(b"\n") else b"") + text + b"\n")
        file.flush()
        files.synchronize(file.fileno())
        if not content:
            files.synchronize_folder(point)
    return hashlib.sha256(text).hexdigest()


def _texts(content: bytes) -> list[bytes]:
    """Return the lines of a ledger, also if an editor or git changed line ends, or added a mark or empty lines."""
    return [text for text in content.removeprefix(codecs.BOM_UTF8).splitlines() if text]


def skipped(point: Path) -> set[int]:
    """Return the repeats of a point that were skipped last; none without a ledger that can be read."""
    try:
        content = bounded.read(point / NAME)
    except OSError:
        return set()
    last = {line.repeat: line.event for _, line in lines(content) if line}
    return {repeat for repeat, event in last.items() if event == "skip"}


def lines(content: bytes) -> Iterator[tuple[str, Line | None]]:
    """Yield the digest of each line and the line; None for one that is no line of a ledger."""
    for text in _texts(content):
        line = None
        with suppress(msgspec.DecodeError, UnicodeError, RecursionError):
            line = msgspec.json.decode(text, type=Line)
        yield hashlib.sha256(text).hexdigest(), line
