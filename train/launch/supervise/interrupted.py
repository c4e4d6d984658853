"""Launches without a record, as of a killed launcher: the next start writes it, from what their ranks had measured."""

import socket
from collections.abc import Iterable
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
import psutil

from record import ledger, parts, protocol
from record import run_files as files
from record.parts import JobEnd
from record.schema import RECORD_NAME, Failure
from train.config.checks import ConfigError
from train.config.identity import rebuild
from train.launch.supervise import presence
from train.launch.supervise.one_run import END_WITHIN_S, cores_shared, save

REASON = "interrupted: its launcher ended without a record"


def record_interrupted(points: Iterable[Path]) -> list[str]:
    """Write a record of each launch in the folders of these points that has none and is over; return what was done."""
    folders = [folder for point in points for generations in files.runs(point).values() for folder in generations]
    begun = [folder for folder in folders if protocol.assignment_path(folder).exists()]
    return [_record(folder) for folder in begun if not ((folder / RECORD_NAME).exists() or presence.is_on(folder))]


def _record(folder: Path) -> str:
    _wait_for_ranks(folder)
    try:
        assignment, by_file = protocol.read_assignment(folder), parts.by_file(folder)
        config, ranks = rebuild(assignment.config), [*by_file.values()]
        line, started_at = _beginning(folder, assignment)
        times = [path.stat().st_mtime for path in by_file]
        end = JobEnd(
            started_at=started_at,
            job_s=max(0.0, max(times, default=started_at) - started_at),
            cores_shared=cores_shared(config, assignment.hosts_apart, ranks),
            failure=Failure(REASON, phase=ranks[0].phase if ranks else None),
            ledger_line=line,
        )
        save(folder, assignment, config, by_file, end)
    except (ConfigError, OSError, LookupError, TypeError, msgspec.DecodeError) as error:
        return f"{folder}: {REASON}, and none can be written: {error}"
    return f"{folder}: {REASON}; it now has one of what was measured"


def _wait_for_ranks(folder: Path) -> None:
    """Wait for ranks on this host that are ending because their launcher is gone."""
    ranks = []
    for path in protocol.part_paths(folder):
        host, _, pid = path.stem.partition(".")[2].rpartition(".")
        if host == socket.gethostname():
            with suppress(psutil.NoSuchProcess):
                ranks.append(psutil.Process(int(pid)))
    psutil.wait_procs(ranks, END_WITHIN_S)


def _beginning(folder: Path, assignment: protocol.Assignment) -> tuple[str, float]:
    """Return the digest of the line in the ledger that this run began with, and when it began, in s since the epoch."""
    run = assignment.repeat, assignment.identity["generation"]
    with suppress(FileNotFoundError):
        for digest, line in ledger.lines((folder.parent / ledger.NAME).read_bytes()):
            if line and line.event == "begin" and (line.repeat, line.generation) == run:
                return digest, datetime.fromisoformat(line.at).timestamp()
    return "", protocol.assignment_path(folder).stat().st_mtime
