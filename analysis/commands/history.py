"""`history`, `reference` and `check-reference`: points over time, kept as a reference, and compared: slower or not?"""

import argparse
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path

import pandas as pd

from analysis import TableError, documents
from analysis.commands import arguments
from analysis.compare import reference, sessions, text
from analysis.compare.launches import Key, Values
from analysis.compare.provenance import merged
from analysis.compare.reference import Reference
from analysis.compare.sessions import History, MachineHistory, Session
from analysis.study import Study, record_files
from analysis.thresholds import limit
from common.terminal import paragraph
from record import run_files as files


def measured(results: Path, experiment: str | None, since: str | None = None) -> dict[str, list[Session]]:
    """Load the sessions of an experiment (None: of all) from the records below a folder, by machine.

    Raises TableError where there is nothing.
    """
    if not results.is_dir():
        raise TableError(f"{results}: no such folder; measure first, or give the folder of local records")
    study = Study(*record_files(results), every_generation=True)
    arguments.print_notices(study, study.failed, experiment)
    complete = study.local[~study.local["record"].isin([notice.path for notice in study.failed])]
    rows = complete[complete["experiment"].eq(experiment)] if experiment else complete
    by_machine = sessions.sessions(rows, study.records)
    recent = {machine: sessions.since(own, since) if since else own for machine, own in by_machine.items()}
    if not any(recent.values()):
        experiments = ", ".join(sorted(set(complete["experiment"]))) or "none"
        subject = f" of experiment '{experiment}'" if experiment else ""
        after = f" since {since}" if since else ""
        raise TableError(f"{results}: no complete run{subject}{after} (there are: {experiments})")
    return {machine: own for machine, own in recent.items() if own}


def declare_history(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "experiment", "--results", "--since", "--within", "--strict", "--junit", "--format")
    arguments.add(parser, "--draw", "--out")


def run_history(options: argparse.Namespace) -> int:
    """Print the history; returns 1 if a point is worse and `strict` is set. Raises TableError without a record."""
    within = options.within or limit("same")
    history = sessions.compare_sessions(measured(options.results, options.experiment, options.since), within)
    rows = [row for machine in history.machines for row in machine.points]
    if options.format == "json":
        print(documents.text(history))
    else:
        print(*(_machine_text(machine) for machine in history.machines), sep="\n\n", end="\n\n")
        print(paragraph(text.EXPLANATION), text.counts(rows), sep="\n\n")
    if options.junit:
        arguments.write_junit(options.junit, "history", text.failures(rows))
    if options.draw:
        _draw(options, history)
    return 1 if options.strict and any(row.verdict == "worse" for row in rows) else 0


def _machine_text(machine: MachineHistory) -> str:
    table = text.session_table(machine)
    if len(machine.sessions) == 1:
        return f"{table}\n\none session: nothing to compare with yet; FORCE=1 measures the same points again"
    compared = text.text(text.sections(machine.points, "before", "newest"), {})
    return "\n\n".join([table, compared, text.days_text(machine.points)])


def _draw(options: argparse.Namespace, history: History) -> None:
    from analysis.figures import files
    from analysis.figures import history as figure

    report = arguments.figure_printer(options)
    for nth, machine in enumerate(history.machines, 1):
        id = f"history-{options.experiment.replace('_', '-')}" + (f"-{nth}" if nth > 1 else "")
        files.save(id, partial(figure.draw, machine, history.within), options.out)
        report(id)


def _add_reference(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="of the reference, as owens-2026-11")
    arguments.add(parser, "--results", "--since", "--within")


def declare_reference(parser: argparse.ArgumentParser) -> None:
    _add_reference(parser)
    arguments.add(parser, "--experiment", help="only this one (default: all)")
    parser.add_argument("--force", action="store_true", help="replace what it has of this system")


def run_reference(options: argparse.Namespace) -> int:
    """Write the reference and show it. Raises TableError where there is one, or nothing to put into it."""
    file = reference.path(options.name)
    stored = None
    if file.exists():
        with suppress(TableError) if options.force else nullcontext():  # one that cannot be read is replaced
            stored = reference.load(file)
    machines = measured(options.results, options.experiment, options.since).values()
    chosen, values = _merged([own if options.since else own[-1:] for own in machines])
    within = options.within or (stored.within if stored else limit("same"))
    new = reference.new_reference(options.name, chosen, values, within)
    if not new.points:
        reasons = "; ".join(dict.fromkeys(why for point in values.values() for why in point.invalid.values()))
        raise TableError(f"{options.results}: no point that is a measurement of scaling: {reasons}")
    if stored and not options.force and (both := {*new.systems} & {*stored.systems}):
        what = f"{file}: it has values of {', '.join(sorted(both))}"
        raise TableError(f"{what}; FORCE=1 replaces them, another NAME= keeps both; those of other systems are kept")
    file.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(file, reference.dumps(reference.with_other_systems(new, stored) if stored else new))
    print(text.value_table([(point, point.side.number) for point in new.points], "launches"), "", sep="\n")
    print(f"{file}: {len(new.points)} values of {len(new.records)} launches, {new.first_day} to {new.last_day}; "
          f"a value counts as the same within {100 * new.within:g} %")  # fmt: skip
    if any(len(point.launches) == 1 for point in new.points):
        print("values of one launch: how far launches differ is not known; REPEATS=3 or more shows it")
    print(f"keep it with the kit (git add --force {file}); after maintenance: measure with FORCE=1, then "
          f"make check-reference NAME={options.name}")  # fmt: skip
    return 0


def _merged(by_machine: list[list[Session]]) -> tuple[list[Session], dict[Key, Values]]:
    """Return the sessions on all machines, and the values of each point."""
    values: dict[Key, Values] = {}
    for own in by_machine:
        values |= sessions.session_values(own)
    return [session for own in by_machine for session in own], values


def declare_check_reference(parser: argparse.ArgumentParser) -> None:
    _add_reference(parser)
    arguments.add(parser, "--junit", "--format")


def run_check_reference(options: argparse.Namespace) -> int:
    """Print each point beside its reference; returns 1 if one is worse. Raises TableError without a reference."""
    stored = reference.load(reference.path(options.name))
    machines = measured(options.results, None, options.since).values()
    newest, values = _merged([_newest(own, stored, options.since) for own in machines])
    check = reference.check(stored, values, options.within or stored.within)
    rows = check.comparisons
    if options.format == "json":
        print(documents.text(check))
    else:
        now = "; ".join(dict.fromkeys(session.days for session in newest)) or "nothing yet, FORCE=1 measures again"
        print(f"{stored.name}: measured {stored.first_day} to {stored.last_day}; now: {now}", "", sep="\n")
        print(text.text(text.sections(rows, "reference", "now"), {}), "", *_changes(stored, newest), sep="\n")
        if check.other_systems:
            print(f"not compared: the values of other systems: {'; '.join(check.other_systems)}", "", sep="\n")
        print(paragraph(text.EXPLANATION), "", text.counts(rows), sep="\n")
    if options.junit:
        arguments.write_junit(options.junit, "check-reference", text.failures(rows))
    return 1 if any(row.verdict == "worse" for row in rows) else 0


def _newest(own: list[Session], stored: Reference, since: str | None) -> list[Session]:
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


def _changes(stored: Reference, newest: list[Session]) -> list[str]:
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
