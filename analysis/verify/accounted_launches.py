"""Whether each launch of a point is accounted for: its ledger, its records, and the plans of its commands."""

import hashlib
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import NamedTuple

from analysis.finding import Finding, Severity, local_finding
from analysis.verify.contents import with_digest
from analysis.verify.point import ASSIGNMENT, PointFolder
from analysis.verify.remade import changed
from record import ledger
from record import run_files as files
from record.schema import RECORD_NAME, RecordError, RunRecord

BROKEN, UNACCOUNTED, REWRITTEN = "ledger_broken", "launch_unaccounted", "rewritten"
_RECORDS = "a record of each launch"
_REMOVED = "It was lost or removed. How the launches that remain were chosen is not known."
_CLOCK_S = 2.0  # the ledger has whole seconds


class Launch(NamedTuple):
    """A launch in a ledger: the digest of the line of its beginning, that line, and the line of its end, if any."""

    digest: str
    begin: ledger.Line
    end: ledger.Line | None = None

    @property
    def run(self) -> str:
        """Return the name of its folder."""
        return _run_name(self.begin)


class Known(NamedTuple):
    """A ledger as a later launch found it: its lines, the digests of the first and last one, that launch's folder."""

    lines: int
    first: str
    last: str
    by: str


@dataclass
class Launches:
    """The launches of an experiment, by their names in a plan: point, hash of the configuration, repeat."""

    begun: set[str] = field(default_factory=set)  # also those that were skipped
    plans: dict[str, list[str]] = field(default_factory=dict)  # by digest
    complete: Counter[str] = field(default_factory=Counter)  # how often each was measured completely
    ledgers: dict[str, list[str]] = field(default_factory=dict)  # by point: the digests of its lines
    parts: dict[str, str] = field(default_factory=dict)  # by digest: the first repeat with this file of a rank
    known: dict[str, list[Known]] = field(default_factory=lambda: defaultdict(list))  # by point


def check(point: PointFolder, launches: Launches) -> Iterator[Finding]:
    """Yield what the ledger of a point and its folders do not agree on, and add its launches to `launches`.

    Raises RecordError if the ledger cannot be read.
    """
    numbered = [*ledger.lines(point.read(ledger.NAME))]
    lines = [line for _, line in numbered if line]
    last: dict[str, Launch] = {}  # of each folder
    for digest, line in numbered:
        if line and line.event == "begin":
            last[_run_name(line)] = Launch(digest, line)
        elif line and line.event == "end" and (launch := last.get(_run_name(line))):
            launches.complete[f"{point.name}/r{line.repeat}"] += line.status == "complete"
            last[launch.run] = launch._replace(end=line)
    launches.begun |= {f"{point.name}/r{line.repeat}" for line in lines}
    whole = numbered if not numbered or numbered[-1][1] else numbered[:-1]  # an interrupted copy, too, ends in a line
    launches.ledgers[point.name] = [digest for digest, _ in whole]
    yield from _chain(f"{point.folder}/{ledger.NAME}", numbered)
    cut = any(line is None for _, line in numbered)
    for launch in last.values():
        yield from _folder(point, launch, cut)
    for run in point.runs:
        if run not in last and files.is_run(run):
            place = f"{point.folder}/{run}/{RECORD_NAME}"
            meaning = "It is of another folder, or its lines were removed."
            yield local_finding(
                UNACCOUNTED, place, "warning", "no line of the ledger is that of its beginning", "one", meaning
            )


def add_assignments(point: PointFolder, launches: Launches) -> None:
    """Add what the files run.json of a point say of the plans of their commands, and of all ledgers as they began."""
    for run in sorted({name.partition("/")[0] for name in point.names if name.endswith(f"/{ASSIGNMENT}")}):
        if files.is_run(run) and (assignment := point.assignment(run)):
            launches.plans[ledger.plan_digest(assignment.plan)] = assignment.plan
            for name, state in assignment.ledgers.items():
                launches.known[name].append(Known(*state, f"{point.folder}/{run}"))


def _run_name(line: ledger.Line) -> str:
    return files.run_folder(Path(), line.repeat, line.generation).name


def _chain(place: str, lines: list[tuple[str, ledger.Line | None]]) -> Iterator[Finding]:
    """Yield the first line that does not name the line before it, and lines that a crash cut short."""
    digests = ["", *(digest for digest, _ in lines)]
    if cut := [number for number, (_, line) in enumerate(lines, 1) if line is None]:
        meaning = "A crash or a full disk leaves it so. What it said is lost."
        yield local_finding(BROKEN, place, "note", f"line {cut[0]} is incomplete", "a whole line", meaning)
    for number, (_, line) in enumerate(lines):
        if line and line.previous != digests[number]:
            twice = line.previous in digests[1:number]
            severity: Severity = "warning" if twice else "serious"
            meaning = "A line was removed, changed or added after it was written."
            if twice:
                meaning = "Two launchers wrote at once, in a folder without locks; or lines were added."
            stated = f"line {number + 1} follows on another line than the one before it"
            yield local_finding(BROKEN, place, severity, stated, "an unbroken chain", meaning)
            return


def _folder(point: PointFolder, launch: Launch, cut: bool) -> Iterator[Finding]:
    """Yield what a launch in the ledger and the files in its folder do not agree on. cut: a line is incomplete."""
    folder, began = f"{point.folder}/{launch.run}", f"{launch.run} began at {launch.begin.at}"
    yield from _same(point, f"{launch.run}/{ASSIGNMENT}", launch.begin.run, "when its launch began")
    if f"{launch.run}/{RECORD_NAME}" in point.names:
        yield from _record(point, launch, cut)
    elif launch.end:
        stated = f"{began}, ended {launch.end.status}; no record"
        yield local_finding(UNACCOUNTED, folder, "warning", stated, _RECORDS, _REMOVED)
    elif any(name.startswith(f"{launch.run}/") for name in point.names):
        meaning = "It is in progress, or its launcher ended without a record."
        yield local_finding(UNACCOUNTED, folder, "note", f"{began}; no record", _RECORDS, meaning)
    else:
        yield local_finding(UNACCOUNTED, folder, "warning", f"{began}; nothing of it is left", _RECORDS, _REMOVED)


def _same(point: PointFolder, name: str, sha256: str, when: str) -> Iterator[Finding]:
    """Yield whether a file in a folder, if it can be read, is another one than the ledger says."""
    try:
        content = point.read(name)
    except RecordError:
        return
    file = name.rpartition("/")[2]
    if with_digest(file, content, sha256) is None:
        yield changed(f"{point.folder}/{name}", "its SHA-256", f"another one {when}", "It was changed after that.")
    elif hashlib.sha256(content).hexdigest() != sha256:
        meaning = "Line ends, white space or indentation differ, as after an editor or git. It counts."
        yield local_finding(REWRITTEN, f"{point.folder}/{name}", "note", "other bytes", f"those {when}", meaning)


def _record(point: PointFolder, launch: Launch, cut: bool) -> Iterator[Finding]:
    """Yield what a record and the lines of the launch in its folder do not agree on."""
    place, end = f"{point.folder}/{launch.run}/{RECORD_NAME}", launch.end
    findings = [*_same(point, f"{launch.run}/{RECORD_NAME}", end.record, "when its launch ended")] if end else []
    yield from findings
    if any(finding.severity == "serious" for finding in findings):
        return
    if end is None:
        grade: Severity = "note" if cut else "warning"
        meaning = "A full disk or a kill leaves it so; or the line was removed."
        yield local_finding(UNACCOUNTED, place, grade, "no line of the ledger is that of its end", "one", meaning)
    try:
        run = point.record(launch.run)
    except RecordError:
        return
    yield from _lines(f"{point.folder}/{ledger.NAME}", launch, run)


def _lines(place: str, launch: Launch, run: RunRecord) -> Iterator[Finding]:
    """Yield what the lines of a launch say otherwise than its record. place: of the ledger."""
    begin, end = launch.begin, launch.end
    if files.run_folder(Path(), run.repeat, run.generation).name != launch.run:
        record_place = f"{Path(place).parent}/{launch.run}/{RECORD_NAME}"
        stated = f"r{run.repeat}, generation {run.generation}, in the folder {launch.run}"
        yield changed(record_place, stated, f"{launch.run}, when it began", "It was renumbered or moved.")
    pairs = [("the line of its beginning", launch.digest, run.ledger_line)] if run.ledger_line else []
    pairs += [("its end is", end.status, run.status)] if end else []
    pairs += [("it ended at", end.at, run.ended_at)] if end and run.ended_at else []
    for what, stated, follows in pairs:
        if stated != follows:
            meaning = "A line was changed after it was written, or the record is of another launch."
            text = f"{launch.run}: {what} {stated[:25]}"
            yield local_finding(BROKEN, place, "serious", text, f"{follows[:25]}, as its record says", meaning)
    if run.status == "complete" and end and begin.at <= run.started_at and not run.program:
        try:
            span_s = (datetime.fromisoformat(end.at) - datetime.fromisoformat(begin.at)).total_seconds()
        except (ValueError, TypeError):  # no time, or one of them without a zone
            stated, meaning = f"{launch.run}: from {begin.at[:25]!r} to {end.at[:25]!r}", "A line was changed."
            yield local_finding(BROKEN, place, "serious", stated, "times in UTC", meaning)
            return
        if run.job_s > span_s + _CLOCK_S:
            stated, meaning = f"{launch.run}: a job of {run.job_s:.0f} s", "One was changed; or a clock was set."
            yield local_finding(BROKEN, place, "warning", stated, f"at most {span_s:.0f} s between its lines", meaning)


def remembered(experiment: str, launches: Launches) -> Iterator[Finding]:
    """Yield the ledgers that lack a line which a later launch found: its end was removed or changed."""
    points = {name.rpartition("/")[0] for name in launches.begun}
    for point, known in launches.known.items():
        if point not in points:
            continue  # `planned` names it
        digests = launches.ledgers.get(point, [])
        missing = [each for each in known if each.last not in digests]
        if not missing:
            continue
        lines, first, _, by = max(missing)
        severity: Severity = "warning"
        stated = f"{len(digests)} lines"
        meaning = "Lines were removed, or the folder is an earlier copy, or part of one."
        if not digests:
            stated, meaning = "no ledger", "It was removed or lost: launches that were dropped do not show."
        elif first not in digests:
            stated, meaning = "another ledger", "It was deleted and measured again, or comes from elsewhere."
        elif lines <= len(digests):
            severity, stated, meaning = "serious", f"another line {lines}", "It was changed after that."
        place, follows = f"{experiment}/{point}/{ledger.NAME}", f"the {lines} lines that {by} found"
        yield local_finding(BROKEN, place, severity, stated, follows, meaning)


def copied(place: str, run: RunRecord, launches: Launches) -> Iterator[Finding]:
    """Yield a file of a rank that another repeat has, too, and add those of a complete record to `launches`.

    Another generation may have it: the numbers of a program were read again. A rank that failed may have measured none.
    """
    if run.status != "complete":
        return
    repeat = re.sub(rf"(\.\d+)?/{RECORD_NAME}$", "", place)
    ranks = {name: sha256 for name, sha256 in run.sources.items() if name != ASSIGNMENT}
    same = [name for name, sha256 in ranks.items() if launches.parts.setdefault(sha256, repeat) != repeat]
    for name in same[:1]:
        meaning = "No two launches measure the same times: one is a copy under another name."
        yield local_finding(
            UNACCOUNTED, place, "warning", name, f"another file than {launches.parts[ranks[name]]} has", meaning
        )


def planned(experiment: str, launches: Launches) -> Iterator[Finding]:
    """Yield the points of the plans that have no folder although others began after them, and the missing launches."""
    points = {name.rpartition("/")[0] for name in launches.begun}
    gone: dict[str, None] = {point: None for point in launches.known if point not in points}
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
        yield local_finding(UNACCOUNTED, experiment, "warning", stated, "all of the plan", meaning)
    if names := [name for name in missing if name.rpartition("/")[0] not in gone]:
        stated = f"planned, and no line or record: {_listed(names)}"
        meaning = "Interrupted, not made yet, or could not begin; or the newest were removed with their lines."
        yield local_finding(UNACCOUNTED, experiment, "warning", stated, "all of the plan", meaning)


def _listed(names: Iterable[str]) -> str:
    names = [*names]
    return ", ".join(names[:4]) + (f" and {len(names) - 4} more" if len(names) > 4 else "")
