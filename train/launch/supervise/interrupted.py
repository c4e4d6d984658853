"""Launches without a record, as of a killed launcher: the next start writes it, from what their ranks had measured."""

import socket
from collections.abc import Iterable, Sequence
from contextlib import suppress
from datetime import datetime
from pathlib import Path

import msgspec
import psutil

from common import bounded_files as bounded
from record import ledger, parts, protocol
from record import run_files as files
from record.schema import RECORD_NAME, Failure
from train.config.checks import ConfigError
from train.config.identity import rebuild
from train.launch.supervise import presence
from train.launch.supervise.one_run import END_WITHIN_S, cores_shared, save

REASON = "interrupted: its launcher ended without a record"


def record_interrupted(points: Iterable[Path]) -> list[str]:
    """Write a record of each launch in the folders of these points that has none and is over.

    Return what was done, and the files and folders with names that only look like those of launches.
    """
    by_point = {point: [run for runs in files.runs(point).values() for run in runs] for point in points}
    begun = [run for runs in by_point.values() for run in runs if protocol.assignment_path(run).exists()]
    recorded = [_record(folder) for folder in begun if not (_has_record(folder) or presence.is_on(folder))]
    return recorded + [line for point, runs in by_point.items() for line in _left_alone(point, runs)]


def _has_record(folder: Path) -> bool:
    """Return whether a launch has its record; an empty file only reserved the name of one."""
    path = folder / RECORD_NAME
    return path.exists() and path.stat().st_size > 0


def _left_alone(point: Path, runs: Sequence[Path]) -> list[str]:
    """Return a line for what is neither the folder of a run nor a part, but nearly has the name of one."""
    others = [path for path in sorted(point.glob("r[0-9]*")) if path not in runs]
    for run in runs:
        others += sorted({*run.glob("rank-*.jsonl")} - {*protocol.part_paths(run)})
    return [f"{path}: the kit gives no such name; it is left alone, and nothing in it counts" for path in others]


def _record(folder: Path) -> str:
    _wait_for_ranks(folder)
    try:
        (folder / RECORD_NAME).unlink(missing_ok=True)  # an empty one
        assignment, by_file = protocol.read_assignment(folder), parts.read_parts(folder)
        config, ranks = rebuild(assignment.config), [*by_file.values()]
        line, started_at = _beginning(folder, assignment)
        times = [path.stat().st_mtime for path in by_file]
        end = parts.JobEnd(
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
    for _, host, pid in protocol.part_processes(folder).values():
        if host == socket.gethostname():
            with suppress(psutil.NoSuchProcess):
                ranks.append(psutil.Process(pid))
    psutil.wait_procs(ranks, END_WITHIN_S)


def _beginning(folder: Path, assignment: protocol.Assignment) -> tuple[str, float]:
    """Return the digest of the line in the ledger that this run began with, and when it began, in s since the epoch."""
    run = assignment.repeat, assignment.identity["generation"]
    with suppress(OSError):
        for digest, line in ledger.lines(bounded.read(folder.parent / ledger.NAME)):
            if line and line.event == "begin" and (line.repeat, line.generation) == run:
                return digest, datetime.fromisoformat(line.at).timestamp()
    return "", protocol.assignment_path(folder).stat().st_mtime
