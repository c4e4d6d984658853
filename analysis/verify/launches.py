"""Whether each launch of a point is accounted for: its ledger, its records, and the plans of its commands."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from analysis.finding import Finding, Severity
from analysis.verify.point import ASSIGNMENT, Point
from analysis.verify.remade import changed
from record import ledger
from record import run_files as files
from record.schema import RECORD_NAME, RunRecord

BROKEN, UNACCOUNTED = "ledger_broken", "launch_unaccounted"
_RECORDS = "a record of each launch"
_REMOVED = "It was lost or removed. How the launches that remain were chosen is not known."


@dataclass
class Launches:
    """The launches of an experiment, by their names in a plan: point, hash of the configuration, repeat."""

    begun: set[str] = field(default_factory=set)  # also those that were skipped
    plans: dict[str, list[str]] = field(default_factory=dict)  # by digest
    complete: Counter[str] = field(default_factory=Counter)  # how often each was measured completely


def _unaccounted(place: str, severity: Severity, stated: str, follows: str, meaning: str) -> Finding:
    return Finding("local", place, UNACCOUNTED, severity, stated, follows, None, meaning)


def check(point: Point, records: Mapping[str, RunRecord], launches: Launches) -> Iterator[Finding]:
    """Yield what the ledger of a point and its records do not agree on, and add its launches to `launches`.

    records: by the names of their folders. Raises RecordError if the ledger cannot be read.
    """
    numbered = [*ledger.lines(point.read(ledger.NAME))]
    lines = [line for _, line in numbered if line]
    launches.begun |= {f"{point.name}/r{line.repeat}" for line in lines}
    ends = {_run_name(line): line for line in lines if line.event == "end"}
    launches.complete += Counter(f"{point.name}/r{end.repeat}" for end in ends.values() if end.status == "complete")
    begins = {digest: line for digest, line in numbered if line and line.event == "begin"}
    for line in begins.values():
        assignment = point.assignment(_run_name(line)) if line.plan not in launches.plans else None
        if assignment and ledger.plan_digest(assignment.plan) == line.plan:
            launches.plans[line.plan] = assignment.plan
    yield from _chain(f"{point.folder}/{ledger.NAME}", numbered)
    yield from _without_record(point, begins.values(), ends)
    for run_name, run in records.items():
        if run.ledger_line:
            yield from _record(point, run_name, run, begins.get(run.ledger_line), ends.get(run_name))


def _run_name(line: ledger.Line) -> str:
    return files.run_folder(Path(), line.repeat, line.generation).name


def _chain(place: str, lines: list[tuple[str, ledger.Line | None]]) -> Iterator[Finding]:
    """Yield the first line that does not name the line before it, and lines that a crash cut short."""
    digests = ["", *(digest for digest, _ in lines)]
    if cut := [number for number, (_, line) in enumerate(lines, 1) if line is None]:
        meaning = "A crash or a full disk leaves it so. What it said is lost."
        yield Finding("local", place, BROKEN, "note", f"line {cut[0]} is incomplete", "a whole line", None, meaning)
    for number, (_, line) in enumerate(lines):
        if line and line.previous != digests[number]:
            twice = line.previous in digests[1:number]
            severity: Severity = "warning" if twice else "serious"
            meaning = "A line was removed, changed or added after it was written."
            if twice:
                meaning = "Two launchers wrote at once, in a folder without locks; or lines were added."
            stated = f"line {number + 1} follows on another line than the one before it"
            yield Finding("local", place, BROKEN, severity, stated, "an unbroken chain", None, meaning)
            return


def _without_record(point: Point, begins: Iterable[ledger.Line], ends: Mapping[str, ledger.Line]) -> Iterator[Finding]:
    folders = {name.partition("/")[0] for name in point.names}
    for line in begins:
        name = _run_name(line)
        if f"{name}/{RECORD_NAME}" in point.names:
            continue
        place, began = f"{point.folder}/{name}", f"{name} began at {line.at}"
        if name in ends:
            yield _unaccounted(place, "warning", f"{began}, ended {ends[name].status}; no record", _RECORDS, _REMOVED)
        elif name in folders:
            meaning = "It is in progress, or its launcher ended without a record."
            yield _unaccounted(place, "note", f"{began}; no record", _RECORDS, meaning)
        else:
            yield _unaccounted(place, "warning", f"{began}; nothing of it is left", _RECORDS, _REMOVED)


def _record(
    point: Point, run_name: str, run: RunRecord, begin: ledger.Line | None, end: ledger.Line | None
) -> Iterator[Finding]:
    """Yield what a record and the lines of its launch do not agree on. end: of the launch in the folder."""
    place = f"{point.folder}/{run_name}/{RECORD_NAME}"
    if begin is None:
        meaning = "It is of another folder, or its line was removed or changed."
        yield _unaccounted(place, "warning", "no line of the ledger is that of its beginning", "one", meaning)
        return
    if {run_name, files.run_folder(Path(), run.repeat, run.generation).name} != {_run_name(begin)}:
        stated = f"r{run.repeat}, generation {run.generation}, in the folder {run_name}"
        yield changed(place, stated, f"{_run_name(begin)}, when it began", "It was renumbered or moved.")
    elif run.sources.get(ASSIGNMENT) != begin.run:
        yield changed(place, f"SHA-256 of {ASSIGNMENT}", "another one when it began")
    elif end and hashlib.sha256(point.read(f"{run_name}/{RECORD_NAME}")).hexdigest() != end.record:
        yield changed(place, "its SHA-256", "another one when its launch ended", "It was changed after that.")


def planned(experiment: str, launches: Launches) -> Iterator[Finding]:
    """Yield the points of the plans that have no folder although others began after them, and the missing launches."""
    points = {name.rpartition("/")[0] for name in launches.begun}
    gone: dict[str, None] = {}
    missing: dict[str, None] = {}
    for plan in launches.plans.values():
        last = max((position for position, name in enumerate(plan) if name in launches.begun), default=-1)
        for position, name in enumerate(plan):
            point = name.rpartition("/")[0]
            if position < last and point not in points:
                gone[point] = None
            elif name not in launches.begun:
                missing[name] = None
    if gone:
        meaning = (
            "Others began after them: how these were chosen is not known, if their folders were removed. They may also "
            "be elsewhere, or could not begin."
        )
        stated = f"points of the plan without a folder: {_listed(gone)}"
        yield _unaccounted(experiment, "warning", stated, "all of the plan", meaning)
    if names := [name for name in missing if name.rpartition("/")[0] not in gone]:
        stated = f"planned, and no line or record: {_listed(names)}"
        meaning = "Interrupted, not made yet, or could not begin."
        yield _unaccounted(experiment, "note", stated, "all of the plan", meaning)


def _listed(names: Iterable[str]) -> str:
    names = [*names]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
