"""`history`: the points of an experiment over time: slower or not?"""

import argparse
from functools import partial
from pathlib import Path

from analysis import TableError, documents
from analysis.commands import arguments
from analysis.compare import comparison_text, sessions
from analysis.compare.sessions import History, MachineHistory, Session
from analysis.study import Study, record_files
from analysis.thresholds import limit
from common.terminal import show


def measured_sessions(results: Path, experiment: str | None, since: str | None = None) -> dict[str, list[Session]]:
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


def declare(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "experiment", "--results", "--since", "--within", "--strict", "--junit", "--format")
    arguments.add(parser, "--draw", "--out")


def run(options: argparse.Namespace) -> int:
    """Print the history; returns 1 if a point is worse and `strict` is set. Raises TableError without a record."""
    within = options.within or limit("same")
    history = sessions.compare_sessions(measured_sessions(options.results, options.experiment, options.since), within)
    rows = [row for machine in history.machines for row in machine.points]
    if options.format == "json":
        print(documents.text(history))
    else:
        print(*(_machine_text(machine) for machine in history.machines), sep="\n\n", end="\n\n")
        show(comparison_text.EXPLANATION, "", comparison_text.counts(rows), hanging="")
    if options.junit:
        arguments.write_junit(options.junit, "history", comparison_text.failures(rows))
    if options.draw:
        _draw(options, history)
    return 1 if options.strict and any(row.verdict == "worse" for row in rows) else 0


def _machine_text(machine: MachineHistory) -> str:
    table = comparison_text.session_table(machine)
    if len(machine.sessions) == 1:
        return f"{table}\n\none session: nothing to compare with yet; FORCE=1 measures the same points again"
    compared = comparison_text.text(comparison_text.sections(machine.points, "before", "newest"), {})
    return "\n\n".join([table, compared, comparison_text.days_text(machine.points)])


def _draw(options: argparse.Namespace, history: History) -> None:
    from analysis.figures import figure_files, history_figure

    for nth, machine in enumerate(history.machines, 1):
        id = f"history-{options.experiment.replace('_', '-')}" + (f"-{nth}" if nth > 1 else "")
        arguments.show_figures(options, [id])
        figure_files.save(id, partial(history_figure.draw, machine, history.within), options.out)
