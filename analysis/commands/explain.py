"""`explain`: split wall times into a fixed cost and a cost per step."""

import argparse
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Annotated

import pandas as pd

from analysis import TableError, documents, explain
from analysis.commands import arguments, user_tables
from analysis.documents import Document, about
from analysis.explain import explanation_text, wall_time_runs
from analysis.study import Study
from common.terminal import show


class Explained(Document):
    """The explanations of the curves of a table or an experiment."""

    curves: Annotated[Sequence[explanation_text.ExplainedCurve], about("those that could be split")]
    not_split: Annotated[Mapping[str, str], about("the name of each other curve, and why it could not be split")]
    notes: Annotated[Sequence[str], about("what was left out of the input")]
    read_as: Annotated[Sequence[str], about("how each column was read")]


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.epilog = (
        "FILE is any table (docs/tables.md) with one row a run; or a tidy table like those in analysis/published. "
        f"Columns: {', '.join(wall_time_runs.NEEDED)}; optional: {wall_time_runs.SPEED}, model (one curve each), "
        "repeat (its number). "
        "wall_s [s] is the training time without the initialisation. A bad cell is named; its row is left out, or, "
        "where only the speed is bad, used without it. docs/explain.md: the method, and the JSON."
    )
    source = parser.add_mutually_exclusive_group(required=True)
    source.add_argument("file", nargs="?", type=Path, metavar="FILE", help="a table of runs of one or more curves")
    arguments.add(source, "--experiment")
    arguments.add(parser, "--columns", "--format", "--results")


def run(options: argparse.Namespace) -> int:
    """Print the explanation of each curve; returns 1 if none could be split."""
    points, notes, read_as = _experiment_points(options) if options.experiment else _file_points(options)
    explained, refused = [], {}
    for name, rows in wall_time_runs.curves(points):
        try:
            explained.append(explanation_text.answer(explain.explain(rows, name), rows))
        except TableError as error:
            refused[name] = str(error)
    if options.format == "json":
        print(documents.text(Explained(curves=explained, not_split=refused, notes=notes, read_as=read_as)))
        return 0 if explained else 1
    if read_as:
        show(*read_as, "")
    for curve in explained:
        print(explanation_text.report(curve), end="\n\n")
    for name, reason in refused.items():
        show(f"== {name or 'the curve'}: not split: {reason}", "")
    show(*(f"note: {note}" for note in notes))
    return 0 if explained else 1


def _file_points(options: argparse.Namespace) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Return the points of a user's table, what was left out, and how it was read."""
    read = user_tables.read_user_table(options.file, options.columns)
    points, notes = wall_time_runs.table_runs(read)
    return points, [*read.notes, *notes], read.interpretation


def _experiment_points(options: argparse.Namespace) -> tuple[pd.DataFrame, list[str], list[str]]:
    """Return the points of the records of an experiment, and what was left out. Raises TableError without a record."""
    study = Study(options.results)
    rows = arguments.experiment_rows(options, study, steps=True)
    points, notes = wall_time_runs.points(rows[rows["kind"].eq("measured")], f"{options.results}, {options.experiment}")
    left_out = [f"left out: {notice}" for notice in study.notices]
    return points, notes + left_out + study.trust(options.experiment), []
