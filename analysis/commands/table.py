"""`table`: a user's table as audit, explain and predict read it."""

import argparse
from pathlib import Path

import pandas as pd

from analysis.commands import arguments, user_tables
from analysis.documents import csv_text
from common.terminal import show, text_table


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="any table, a folder of them, or - for standard input")
    arguments.add(parser, "--columns")
    arguments.add(parser, "--out", default=Path("figures/tables/read.csv"))


def run(options: argparse.Namespace) -> int:
    """Print how the columns were read, what was left out, and the rows; write them as CSV."""
    read = user_tables.read_user_table(options.file, options.columns, keep=True)
    show(*read.interpretation, *(f"note: {note}" for note in read.notes), "")
    columns = read.shown() if read.published is None else read.published
    print(text_table(_short(columns)))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(csv_text(columns, float_format="%.12g"))
    show(f"\nwritten: {options.out}")
    return 0


def _short(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows as text: numbers in six digits, blank where they are not known."""
    return rows.map(lambda cell: "" if pd.isna(cell) else f"{cell:.6g}" if isinstance(cell, float) else str(cell))
