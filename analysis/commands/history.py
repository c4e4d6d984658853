"""`history`, `reference` and `check-reference`: points over time, kept as a reference, and compared: slower or not?"""

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from analysis import TableError, documents, history
from analysis.commands import arguments
from analysis.documents import filled
from analysis.history import Key, Row, Session, Values, reference, text
from analysis.history.reference import Reference
from analysis.history.text import ReferenceCheck, change_json
from analysis.study import Study, record_files
from analysis.thresholds import limit
from train.record import files
from train.record.record import RunRecord


@dataclass(frozen=True)
class Machine:
    """The sessions on one machine, and the values of each point."""

    name: str
    sessions: list[Session]
    histories: dict[Key, Values]


JudgedMachines = list[tuple[Machine, list[Row]]]


def measured(results: Path, experiment: str | None, since: str | None = None) -> list[Machine]:
    """Load the history of an experiment (None: of all) from the records below a folder, by machine.

    Raises TableError where there is nothing.
    """
    if not results.is_dir():
        raise TableError(f"{results}: no such folder; measure first, or give the folder of local records")
    study = Study(*record_files(results), every_generation=True)
    name = experiment.replace("-", "_") if experiment else None
    arguments.print_notices(n for n in study.notices if name is None or name in Path(n.path).parts)
    complete = study.local[~study.local["record"].isin([notice.path for notice in study.failed])]
    rows = complete[complete["experiment"].eq(name)] if name else complete
    machines = _machines(rows, study.records, since)
    if not machines:
        experiments = ", ".join(sorted(set(complete["experiment"]))) or "none"
        subject = f" of experiment '{name}'" if name else ""
        after = f" since {since}" if since else ""
        raise TableError(f"{results}: no complete run{subject}{after} (there are: {experiments})")
    return machines


def _machines(rows: pd.DataFrame, records: Mapping[str, RunRecord], since: str | None) -> list[Machine]:
    machines = []
    for name, machine_sessions in history.sessions(rows, records).items():
        recent = history.since(machine_sessions, since) if since else machine_sessions
        if histories := history.histories(recent):
            machines.append(Machine(name, recent, histories))
    return machines


def declare_history(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add(parser, "experiment", "--results", "--since", "--within", "--strict", "--junit", "--format")
    arguments.add(parser, "--draw", "--out")


def run_history(options: argparse.Namespace) -> int:
    """Print the history; returns 1 if a point is slower and `strict` is set. Raises TableError without a record."""
    machines = measured(options.results, options.experiment, options.since)
    within = options.within or limit("same")
    changes_by_machine = [history.newest_changes(machine.histories, machine.sessions) for machine in machines]
    rows = iter(history.verdict_rows([change for changes in changes_by_machine for change in changes], within))
    judged = [
        (machine, [next(rows) for _ in changes]) for machine, changes in zip(machines, changes_by_machine, strict=True)
    ]
    all_rows = [row for _, machine_rows in judged for row in machine_rows]
    if options.format == "json":
        _print_json(judged, within)
    else:
        _print(judged, within)
    if options.junit:
        arguments.write_junit(options.junit, "history", text.failures(all_rows))
    if options.draw:
        _draw(options, judged, within)
    return 1 if options.strict and any(row.verdict == "slower" for row in all_rows) else 0


def _print(judged: JudgedMachines, within: float) -> None:
    for machine, rows in judged:
        print(text.session_table(machine.name, machine.sessions), "", sep="\n")
        if len(machine.sessions) == 1:
            print("one session: nothing to compare with yet; FORCE=1 measures the same points again\n")
            continue
        base = history.session_states(machine.sessions[:-1])[-1]
        sessions = text.compared_sessions(base, machine.sessions[-1].number)
        print(sessions, "", text.table(rows, "before", "newest"), "", sep="\n")
    all_rows = [row for _, rows in judged for row in rows]
    print(text.explanation(within), text.counts(all_rows), sep="\n\n")


def _print_json(judged: JudgedMachines, within: float) -> None:
    histories = [
        text.MachineHistory(
            machine=machine.name,
            sessions=[text.session_json(machine.sessions, nth) for nth in range(len(machine.sessions))],
            points=[text.point_history(row, machine.histories[row.change.key]) for row in rows],
        )
        for machine, rows in judged
    ]
    print(documents.text(text.History(within=within, machines=histories)))


def _draw(options: argparse.Namespace, judged: JudgedMachines, within: float) -> None:
    from analysis.figures import files
    from analysis.figures import history as figure

    report = arguments.figure_printer(options)
    for nth, (machine, rows) in enumerate(judged, 1):
        id = f"history-{options.experiment.replace('_', '-')}" + (f"-{nth}" if nth > 1 else "")
        files.save(id, partial(figure.draw, machine.sessions, rows, machine.histories, within), options.out)
        report(id)


def _add_reference(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", help="of the reference, as owens-2026-11")
    arguments.add(parser, "--results", "--since", "--within")
    parser.add_argument("--folder", type=Path, default=reference.FOLDER, help="default: %(default)s")


def declare_reference(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _add_reference(parser)
    parser.add_argument("--experiment", help="only this one (default: all)")
    parser.add_argument("--force", action="store_true", help="replace a reference of this name")


def run_reference(options: argparse.Namespace) -> int:
    """Write the reference and show it. Raises TableError where there is one, or nothing to put into it."""
    file = reference.path(options.name, options.folder)
    if file.exists() and not options.force:
        raise TableError(f"{file}: there is one of this name; FORCE=1 replaces it, another NAME= keeps both")
    machines = measured(options.results, options.experiment, options.since)
    chosen = [machine.sessions if options.since else machine.sessions[-1:] for machine in machines]
    all_sessions, histories = _merged(chosen)
    new = reference.new_reference(options.name, all_sessions, histories, options.within or limit("same"))
    if not new.points:
        raise TableError(f"{options.results}: no point that is a measurement of scaling: {_why_no_point(histories)}")
    file.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(file, reference.dumps(new))
    print(text.summary(new), "", sep="\n")
    print(f"{file}: {len(new.points)} values of {len(new.records)} launches, {new.first_day} to {new.last_day}; "
          f"a value counts as the same within {100 * new.within:g} %")  # fmt: skip
    if any(len(point.launches) == 1 for point in new.points):
        print("values of one launch: how far launches differ is not known; REPEATS=3 or more shows it")
    print(f"keep it with the kit (git add --force {file}); after maintenance: measure with FORCE=1, then "
          f"make check-reference NAME={options.name}")  # fmt: skip
    return 0


def _merged(by_machine: list[list[Session]]) -> tuple[list[Session], dict[Key, Values]]:
    """Return the sessions on all machines, and the values of each point."""
    histories: dict[Key, Values] = {}
    for sessions in by_machine:
        histories |= history.histories(sessions)
    return [session for sessions in by_machine for session in sessions], histories


def _why_no_point(histories: dict[Key, Values]) -> str:
    return "; ".join(dict.fromkeys(why for values in histories.values() for why in values.invalid.values()))


def declare_check_reference(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    _add_reference(parser)
    arguments.add(parser, "--junit", "--format")


def run_check_reference(options: argparse.Namespace) -> int:
    """Print each point beside its reference; returns 1 if one is slower. Raises TableError without a reference."""
    stored = reference.load(reference.path(options.name, options.folder))
    within = options.within or stored.within
    machines = measured(options.results, None, options.since)
    all_sessions, histories = _merged([_newest(machine, stored, options.since) for machine in machines])
    rows = history.verdict_rows(reference.reference_changes(stored, histories), within)
    if options.format == "json":
        check = filled(
            ReferenceCheck, stored, reference=stored.name, within=within, points=[change_json(row) for row in rows]
        )
        print(documents.text(check))
    else:
        days = dict.fromkeys(session.days for session in all_sessions)
        now = "; ".join(days) or "nothing yet, FORCE=1 measures again"
        print(f"{stored.name}: measured {stored.first_day} to {stored.last_day}; now: {now}", "", sep="\n")
        print(text.table(rows, "reference", "now"), "", *_changes(stored, all_sessions), sep="\n")
        print(text.explanation(within), "", text.counts(rows), sep="\n")
    if options.junit:
        arguments.write_junit(options.junit, "check-reference", text.failures(rows))
    return 1 if any(row.verdict == "slower" for row in rows) else 0


def _newest(machine: Machine, stored: Reference, since: str | None) -> list[Session]:
    """Return the newest session of each experiment (with `since` all), without the launches of the reference."""
    sessions: list[Session] = []
    stored_digests = set(stored.records.values())
    for experiment in sorted({point.experiment for point in stored.points}):
        parts = [_only(session, experiment, stored_digests) for session in machine.sessions]
        measured_sessions = [part for part in parts if part]
        sessions += measured_sessions if since else measured_sessions[-1:]
    return [Session(number, session.launches, session.table) for number, session in enumerate(sessions, 1)]


def _only(session: Session, experiment: str, stored_digests: set[str]) -> Session | None:
    """Return the part of a session that is of an experiment and not of the reference."""
    table: pd.DataFrame = session.table[session.table["experiment"].eq(experiment)]
    new = [launch for launch in session.launches if launch.sha256 not in stored_digests]
    launches = tuple(launch for launch in new if launch.path in set(table["record"]))
    if not launches:
        return None
    rows = table[table["record"].isin([launch.path for launch in launches])]
    return Session(session.number, launches, rows)


def _changes(stored: Reference, sessions: list[Session]) -> list[str]:
    """Return lines on what differs in the provenance of launches then and now."""
    if not sessions:
        return []
    then, now = stored.made, reference.provenances(launch for session in sessions for launch in session.launches)
    pairs = [(name, getattr(then, name), getattr(now, name)) for name in ("commit", "driver", "kernel", "image")]
    packages = sorted({*then.versions, *now.versions})
    pairs += [(name, then.versions.get(name, ["none"]), now.versions.get(name, ["none"])) for name in packages]
    lines = [
        f"  {name}: {', '.join(before) or 'not known'} -> {', '.join(after) or 'not known'}"
        for name, before, after in pairs
        if before != after
    ]
    return ["made with:", *lines, ""] if lines else []
