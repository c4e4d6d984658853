"""`explain`: split wall times into a fixed cost and a cost per step."""

import argparse
import textwrap
from pathlib import Path

import pandas as pd

from analysis import TableError
from analysis.explain import fit, tidy, words
from analysis.explain.tidy import COLUMNS, SYNONYMS
from analysis.table import loading


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    columns = ", ".join(column.name + ("" if column.required else " (optional)") for column in COLUMNS)
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.epilog = "\n".join(
        [
            *textwrap.wrap(
                f"FILE.csv has one row a point: {columns}; or it is a tidy table like those in analysis/published.", 98
            ),
            "wall_s [s] is the training time without the initialisation; images_per_s_per_rank is the measured speed.",
            "A row without steps, batch or wall time is left out and named; a row without a speed still counts.",
            "Also read as these columns:",
            *textwrap.wrap(", ".join(f"{other} = {name}" for other, name in SYNONYMS.items()), 98),
        ]
    )
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("file", nargs="?", type=Path, metavar="FILE.csv", help="points of one or more curves")
    what.add_argument("--experiment", metavar="NAME", help="local records of this experiment")
    parser.add_argument("--results", type=Path, default=Path("results"), metavar="DIR", help="default: results")


def run(options: argparse.Namespace) -> int:
    """Print the explanation of each curve; 1 where none could be split."""
    points, notes = _of_experiment(options) if options.experiment else tidy.read(options.file)
    split = 0
    for name, rows in tidy.curves(points):
        try:
            print(words.report(fit.explain(rows, name), fit.phases(rows)), end="\n\n")
            split += 1
        except TableError as error:
            print(f"== {name or 'the curve'}\n\nnot split: {error}\n")
    for note in notes:
        print(f"note: {note}")
    return 0 if split else 1


def _of_experiment(options: argparse.Namespace) -> tuple[pd.DataFrame, list[str]]:
    """The points of the local records of an experiment, and what was left out. Raises TableError without a record."""
    local = loading.local(options.results)
    rows = local.table[local.table["experiment"].eq(options.experiment.replace("-", "_"))]
    rows = rows[rows["kind"].eq("measured")]
    if rows.empty:
        there = ", ".join(sorted(set(local.table["experiment"]))) or "none"
        raise TableError(f"{options.results}: no record of experiment '{options.experiment}' (there are: {there})")
    points, notes = tidy.points(rows, f"{options.results}, {options.experiment}")
    return points, notes + [f"left out: {notice}" for notice in local.notices]
