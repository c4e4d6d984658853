"""`check-reference`: the newest launches beside a file that `reference` wrote."""

import argparse

import pandas as pd

from analysis import documents
from analysis.commands import arguments
from analysis.commands.history import measured_sessions
from analysis.commands.reference import declare_comparison, merged_values
from analysis.compare import comparison_text, site_reference
from analysis.compare.provenance import merged
from analysis.compare.sessions import Session
from common.terminal import show


def declare(parser: argparse.ArgumentParser) -> None:
    declare_comparison(parser)
    arguments.add(parser, "--junit", "--format")


def run(options: argparse.Namespace) -> int:
    """Print each point beside its reference; returns 1 if one is worse. Raises TableError without a reference."""
    stored = site_reference.load(site_reference.path(options.name))
    machines = measured_sessions(options.results, None, options.since).values()
    newest, values = merged_values([_newest(own, stored, options.since) for own in machines])
    check = site_reference.check(stored, values, options.within or stored.within)
    rows = check.comparisons
    if options.format == "json":
        print(documents.text(check))
    else:
        now = "; ".join(dict.fromkeys(session.days for session in newest)) or "nothing yet, FORCE=1 measures again"
        show(f"{stored.name}: measured {stored.first_day} to {stored.last_day}; now: {now}", "")
        compared = comparison_text.text(comparison_text.sections(rows, "reference", "now"), {})
        print(compared, "", *_changes(stored, newest), sep="\n")
        if check.other_systems:
            show(f"not compared: the values of other systems: {'; '.join(check.other_systems)}", "")
        show(comparison_text.EXPLANATION, "", comparison_text.counts(rows), hanging="")
    if options.junit:
        arguments.write_junit(options.junit, "check-reference", comparison_text.failures(rows))
    return 1 if any(row.verdict == "worse" for row in rows) else 0


def _newest(own: list[Session], stored: site_reference.Reference, since: str | None) -> list[Session]:
    """Return the newest session of each experiment (with `since` all), without the launches of the reference."""
    newest: list[Session] = []
    stored_digests = set(stored.records.values())
    for experiment in sorted({point.experiment for point in stored.points}):
        parts = [part for session in own if (part := _only(session, experiment, stored_digests))]
        newest += parts if since else parts[-1:]
    return [Session(number, session.launches, session.table) for number, session in enumerate(newest, 1)]


def _only(session: Session, experiment: str, stored_digests: set[str]) -> Session | None:
    """Return the part of a session that is of an experiment and not of the reference."""
    table: pd.DataFrame = session.table[session.table["experiment"].eq(experiment)]
    new = [launch for launch in session.launches if launch.sha256 not in stored_digests]
    launches = tuple(launch for launch in new if launch.path in set(table["record"]))
    if not launches:
        return None
    rows = table[table["record"].isin([launch.path for launch in launches])]
    return Session(session.number, launches, rows)


def _changes(stored: site_reference.Reference, newest: list[Session]) -> list[str]:
    """Return lines on what differs in the provenance of launches then and now."""
    if not newest:
        return []
    then, now = stored.made, merged(launch.provenance for session in newest for launch in session.launches)
    pairs = [(name, getattr(then, name), getattr(now, name)) for name in ("commit", "driver", "kernel", "image")]
    packages = sorted({*then.versions, *now.versions})
    pairs += [(name, then.versions.get(name, ["none"]), now.versions.get(name, ["none"])) for name in packages]
    lines = [
        f"  {name}: {', '.join(before) or 'not known'} -> {', '.join(after) or 'not known'}"
        for name, before, after in pairs
        if before != after
    ]
    return ["made with:", *lines, ""] if lines else []
