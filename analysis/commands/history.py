"""`history`: the points of an experiment over time, with a verdict on the newest ones: did this machine get slower?"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pandas as pd

from analysis import TableError, documents
from analysis.commands import arguments, junit
from analysis.history import document, points, sessions, text, verdicts
from analysis.history.points import Key, Values
from analysis.history.sessions import Session
from analysis.history.verdicts import Row
from analysis.study import Study, record_files
from train.record.record import RunRecord


@dataclass(frozen=True)
class Machine:
    """The sessions on one machine, and the values of each point."""

    name: str
    sessions: list[Session]
    histories: dict[Key, Values]


def measured(results: Path, experiment: str | None, since: str | None = None) -> list[Machine]:
    """Load the history of an experiment (None: of all) from the records below a folder, by machine.

    Raises TableError where there is nothing.
    """
    if not results.is_dir():
        raise TableError(f"{results}: no such folder; measure first, or give the folder of local records")
    study = Study(*record_files(results), every_generation=True)
    name = experiment.replace("-", "_") if experiment else None
    arguments.print_notices(one for one in study.notices if name is None or name in Path(one.path).parts)
    complete = study.local[~study.local["record"].isin([notice.path for notice in study.failed])]
    shown = complete[complete["experiment"].eq(name)] if name else complete
    machines = _machines(shown, study.records, since)
    if not machines:
        there = ", ".join(sorted(set(complete["experiment"]))) or "none"
        subject = f" of experiment '{name}'" if name else ""
        after = f" since {since}" if since else ""
        raise TableError(f"{results}: no complete run{subject}{after} (there are: {there})")
    return machines


def _machines(shown: pd.DataFrame, records: Mapping[str, RunRecord], since: str | None) -> list[Machine]:
    machines = []
    for name, machine_sessions in sessions.sessions(shown, records).items():
        recent = sessions.since(machine_sessions, since) if since else machine_sessions
        if histories := points.histories(recent):
            machines.append(Machine(name, recent, histories))
    return machines


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_experiment(parser)
    arguments.add_results(parser)
    arguments.add_period(parser)
    arguments.add_strict(parser, "a point is slower")
    arguments.add_junit(parser)
    arguments.add_format(parser, "text", "json")
    arguments.add_draw(parser)


def run(options: argparse.Namespace) -> int:
    """Print the history; with `strict` 1 where a point is slower. Raises TableError without a record."""
    machines = measured(options.results, options.experiment, options.since)
    within = options.within or verdicts.default_tolerance()
    changes_by_machine = [verdicts.newest_changes(one.histories, one.sessions) for one in machines]
    rows = iter(verdicts.verdict_rows([change for changes in changes_by_machine for change in changes], within))
    rows_by_machine = [[next(rows) for _ in changes] for changes in changes_by_machine]
    every = [row for machine_rows in rows_by_machine for row in machine_rows]
    if options.format == "json":
        _print_json(machines, rows_by_machine, within)
    else:
        _print(machines, rows_by_machine, within)
    if options.junit:
        junit.write(options.junit, "history", text.failures(every))
    if options.draw:
        _draw(options, machines, rows_by_machine, within)
    return 1 if options.strict and any(row.verdict == "slower" for row in every) else 0


def _print(machines: list[Machine], rows: list[list[Row]], within: float) -> None:
    for machine, machine_rows in zip(machines, rows, strict=True):
        print(text.session_table(machine.name, machine.sessions), "", sep="\n")
        if len(machine.sessions) == 1:
            print("one session: nothing to compare with yet; FORCE=1 measures the same points again\n")
            continue
        base = verdicts.session_states(machine.sessions[:-1])[-1]
        print(
            text.compared_sessions(base, machine.sessions[-1].number),
            "",
            text.table(machine_rows, "before", "newest"),
            "",
            sep="\n",
        )
    every = [row for machine_rows in rows for row in machine_rows]
    print(text.how(within), text.counts(every), sep="\n\n")


def _print_json(machines: list[Machine], rows: list[list[Row]], within: float) -> None:
    histories = [
        document.MachineHistory(
            machine=machine.name,
            sessions=[document.session(machine.sessions, nth) for nth in range(len(machine.sessions))],
            points=[document.point_history(row, machine.histories[row.change.key]) for row in machine_rows],
        )
        for machine, machine_rows in zip(machines, rows, strict=True)
    ]
    print(documents.text(document.History(within=within, machines=histories)))


def _draw(options: argparse.Namespace, machines: list[Machine], rows: list[list[Row]], within: float) -> None:
    """Draw one figure a machine, and say where they are."""
    from analysis.figures import files
    from analysis.figures import history as figure

    options.out.mkdir(parents=True, exist_ok=True)
    ids = []
    for nth, (machine, machine_rows) in enumerate(zip(machines, rows, strict=True), 1):
        ids.append(f"history-{options.experiment.replace('_', '-')}" + (f"-{nth}" if nth > 1 else ""))
        points = [figure.PointHistory(row.change.key, machine.histories[row.change.key], row) for row in machine_rows]
        files.save(ids[-1], partial(figure.draw, machine.sessions, points, within), options.out)
    arguments.print_figures(options, ids)
