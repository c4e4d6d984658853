"""`check-reference`: the newest launches beside a reference that a site keeps."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from analysis import documents
from analysis.commands import arguments, junit
from analysis.commands.history import Machine, measured
from analysis.documents import filled
from analysis.history import points, reference, text, verdicts
from analysis.history.document import ReferenceCheck, change
from analysis.history.reference import Reference
from analysis.history.sessions import Session


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", help="of the reference, as owens-2026-11")
    arguments.add_results(parser)
    arguments.add_period(parser)
    parser.add_argument("--folder", type=Path, default=reference.FOLDER, help="default: %(default)s")
    arguments.add_junit(parser)
    arguments.add_format(parser, "text", "json")


def run(options: argparse.Namespace) -> int:
    """Print each point beside its reference; 1 where one is slower. Raises TableError without a reference."""
    stored = reference.load(reference.path(options.name, options.folder))
    within = options.within or stored.within
    histories: dict[points.Key, points.Values] = {}
    sessions: list[Session] = []
    for machine in measured(options.results, None, options.since):
        newest = _newest(machine, stored, options.since)
        sessions += newest
        histories |= points.histories(newest)
    rows = verdicts.verdict_rows(reference.reference_changes(stored, histories), within)
    if options.format == "json":
        check = filled(
            ReferenceCheck, stored, reference=stored.name, within=within, points=[change(row) for row in rows]
        )
        print(documents.text(check))
    else:
        print(f"{stored.name}: measured {stored.first_day} to {stored.last_day}; now: {_days(sessions)}", "", sep="\n")
        print(text.table(rows, "reference", "now"), "", *_changes(stored, sessions), sep="\n")
        print(text.how(within), "", text.counts(rows), sep="\n")
    if options.junit:
        junit.write(options.junit, "check-reference", text.failures(rows))
    return 1 if any(row.verdict == "slower" for row in rows) else 0


def _newest(machine: Machine, stored: Reference, since: str | None) -> list[Session]:
    """Return the newest session of each experiment (with `since` all), without the launches of the reference."""
    sessions: list[Session] = []
    stored_digests = set(stored.records.values())
    for experiment in sorted({point.experiment for point in stored.points}):
        measured_sessions = [
            one for one in (_only(session, experiment, stored_digests) for session in machine.sessions) if one
        ]
        sessions += measured_sessions if since else measured_sessions[-1:]
    return [Session(number, one.launches, one.table) for number, one in enumerate(sessions, 1)]


def _only(session: Session, experiment: str, stored_digests: set[str]) -> Session | None:
    """Return the part of a session that is of an experiment and not of the reference."""
    table: pd.DataFrame = session.table[session.table["experiment"].eq(experiment)]
    own = set(table["record"])
    launches = tuple(one for one in session.launches if one.path in own and one.sha256 not in stored_digests)
    if not launches:
        return None
    left = table[table["record"].isin([one.path for one in launches])]
    return Session(session.number, launches, left)


def _days(sessions: list[Session]) -> str:
    return "; ".join(dict.fromkeys(one.days for one in sessions)) or "nothing yet, FORCE=1 measures again"


def _changes(stored: Reference, sessions: list[Session]) -> list[str]:
    """Return lines on what differs in the provenance of launches then and now."""
    lines = []
    provenances = [one.provenance for one in sessions]
    now: dict[str, list[str]] = {
        name: sorted({getattr(one, name) for one in provenances}) for name in ("commit", "driver", "kernel", "image")
    }
    then = asdict(stored.made)
    for name, values in now.items():
        if values and values != then[name]:
            lines.append(f"  {name}: {', '.join(then[name]) or 'not known'} -> {', '.join(values) or 'not known'}")
    versions = {name for one in provenances for name, _ in one.versions}
    for name in sorted(versions | set(stored.made.versions)) if provenances else ():
        values = sorted({dict(one.versions).get(name, "none") for one in provenances})
        if values != stored.made.versions.get(name, ["none"]):
            lines.append(f"  {name}: {', '.join(stored.made.versions.get(name, ['none']))} -> {', '.join(values)}")
    return ["made with:", *lines, ""] if lines else []
