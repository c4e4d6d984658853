"""`check-reference`: the newest launches beside a reference that a site keeps."""

from __future__ import annotations

import argparse
import json
from dataclasses import asdict
from pathlib import Path

import pandas as pd

from analysis.commands import arguments
from analysis.commands.history import Machine, measured
from analysis.history import points, reference, text, verdicts
from analysis.history.reference import Reference
from analysis.history.sessions import Session


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", help="of the reference, as owens-2026-11")
    arguments.add_results(parser)
    arguments.add_period(parser)
    parser.add_argument("--folder", type=Path, default=reference.FOLDER, help="default: %(default)s")
    arguments.add_format(parser, "text", "json")


def run(options: argparse.Namespace) -> int:
    """Print each point beside its reference; 1 where one is slower. Raises TableError without a reference."""
    kept = reference.load(reference.path(options.name, options.folder))
    within = options.within or kept.within
    histories: dict[points.Key, points.Values] = {}
    found: list[Session] = []
    for machine in measured(options.results, None, options.since):
        newest = _newest(machine, kept, options.since)
        found += newest
        histories |= points.histories(newest)
    rows = verdicts.verdict_rows(reference.reference_changes(kept, histories), within)
    if options.format == "json":
        made = asdict(kept.made)
        content = {"reference": kept.name, "first_day": kept.first_day, "last_day": kept.last_day, "within": within}
        content |= {"made": made, "points": [row.as_json() for row in rows]}
        print(json.dumps(content, indent=1, allow_nan=False))
    else:
        print(f"{kept.name}: measured {kept.first_day} to {kept.last_day}; now: {_days(found)}", "", sep="\n")
        print(text.table(rows, "reference", "now"), "", *_changes(kept, found), sep="\n")
        print(text.how(within), "", text.counts(rows), sep="\n")
    return 1 if any(row.verdict == "slower" for row in rows) else 0


def _newest(machine: Machine, kept: Reference, since: str | None) -> list[Session]:
    """The newest session of each experiment (with `since` all of them), without the launches of the reference."""
    found: list[Session] = []
    known = set(kept.records.values())
    for experiment in sorted({point.experiment for point in kept.points}):
        of = [one for one in (_only(session, experiment, known) for session in machine.sessions) if one]
        found += of if since else of[-1:]
    return [Session(number, one.launches, one.table) for number, one in enumerate(found, 1)]


def _only(session: Session, experiment: str, known: set[str]) -> Session | None:
    """What an session has of an experiment and not of the reference."""
    table: pd.DataFrame = session.table[session.table["experiment"].eq(experiment)]
    own = set(table["record"])
    launches = tuple(one for one in session.launches if one.path in own and one.sha256 not in known)
    if not launches:
        return None
    left = table[table["record"].isin([one.path for one in launches])]
    return Session(session.number, launches, left)


def _days(found: list[Session]) -> str:
    return "; ".join(dict.fromkeys(one.days for one in found)) or "nothing yet, FORCE=1 measures again"


def _changes(kept: Reference, found: list[Session]) -> list[str]:
    """What made the launches then and now, where it differs."""
    lines = []
    made = [one.making for one in found]
    now: dict[str, list[str]] = {
        name: sorted({getattr(one, name) for one in made}) for name in ("commit", "driver", "kernel", "image")
    }
    then = asdict(kept.made)
    for name, values in now.items():
        if values and values != then[name]:
            lines.append(f"  {name}: {', '.join(then[name]) or 'not known'} -> {', '.join(values) or 'not known'}")
    versions = {name for one in made for name, _ in one.versions}
    for name in sorted(versions | set(kept.made.versions)) if made else ():
        values = sorted({dict(one.versions).get(name, "none") for one in made})
        if values != kept.made.versions.get(name, ["none"]):
            lines.append(f"  {name}: {', '.join(kept.made.versions.get(name, ['none']))} -> {', '.join(values)}")
    return ["made with:", *lines, ""] if lines else []
