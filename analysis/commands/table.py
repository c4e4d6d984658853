"""`table`: a user's table as it was read, printed and written as CSV, to check, correct and keep."""

import argparse
from pathlib import Path

import pandas as pd
from tabulate import tabulate

from analysis.commands import arguments
from analysis.text import csv_text
from analysis.user_table import table as user_table


def declare_table(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="any table, a folder of them, or - for standard input")
    arguments.add_columns(parser)
    arguments.add_out(parser, "figures/tables/read.csv")


def run_table(options: argparse.Namespace) -> int:
    """Print how the columns were read, what was left out, and the rows; write them as CSV."""
    read = user_table.read(options.file, options.columns)
    rows = read.runs if read.published is None else read.published
    print(*read.interpretation, *(f"note: {note}" for note in read.notes), sep="\n", end="\n\n")
    shown = rows.drop(columns=[name for name in ("file", "line", "work") if name in rows])
    print(tabulate(_short(shown), headers="keys", tablefmt="simple", showindex=False, disable_numparse=True))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(csv_text(shown, float_format="%.12g"))
    print(f"\nwritten: {options.out}")
    return 0


def _short(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows as text: numbers in six digits, blank where they are not known."""
    return rows.map(lambda cell: "" if pd.isna(cell) else f"{cell:.6g}" if isinstance(cell, float) else str(cell))
