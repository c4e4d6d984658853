"""`tables`: every derived number that the reports print, recomputed; `table`: a user's table as it is read."""

import argparse
from pathlib import Path

import pandas as pd
from tabulate import tabulate

from analysis import reports
from analysis.commands import arguments, user_tables
from analysis.documents import csv_text
from analysis.study import Study
from common.terminal import paragraph, text_table


def declare_tables(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--out", default=Path("figures/tables"))


def run_tables(options: argparse.Namespace) -> int:
    """Write one CSV and one Markdown table a report, and print what does not follow; the exit status."""
    numbers = reports.recompute(Study().published)
    options.out.mkdir(parents=True, exist_ok=True)
    for report, rows in numbers.groupby("report"):
        (options.out / f"{report}.csv").write_text(csv_text(rows, float_format="%.6g"))
        text = tabulate(rows.astype(object).where(rows.notna(), ""), headers="keys", tablefmt="github", showindex=False)
        (options.out / f"{report}.md").write_text(f"# Report {report}: derived numbers, recomputed\n\n{text}\n")
    stated = numbers[numbers["stated"].notna()]
    print(paragraph(f"{reports.counts(stated)}; all of them: {options.out}", hanging="  "))
    for report, rows in stated.groupby("report"):
        print(paragraph(f"report {report}: {reports.counts(rows)}", "  ", "    "))
    print()
    unconfirmed = stated[~stated["agrees"].fillna(False)].to_dict("records")
    for row in unconfirmed:
        text = reports.text_row(row)
        number = ", ".join(filter(None, (f"report {row['report']}", text["place"], text["of"], text["quantity"])))
        values = f"stated {text['stated']}; computed {text['computed'] or 'nothing'}, {text['formula']}"
        print(paragraph(f"{number}: {values}; agrees: {text['agrees']}", hanging="    "))
    return 0


def declare_table(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("file", type=Path, metavar="FILE", help="any table, a folder of them, or - for standard input")
    arguments.add(parser, "--columns")
    arguments.add(parser, "--out", default=Path("figures/tables/read.csv"))


def run_table(options: argparse.Namespace) -> int:
    """Print how the columns were read, what was left out, and the rows; write them as CSV."""
    read = user_tables.read(options.file, options.columns, keep=True)
    print(*read.interpretation, *(f"note: {note}" for note in read.notes), sep="\n", end="\n\n")
    columns = read.shown() if read.published is None else read.published
    print(text_table(_short(columns)))
    options.out.parent.mkdir(parents=True, exist_ok=True)
    options.out.write_text(csv_text(columns, float_format="%.12g"))
    print(f"\nwritten: {options.out}")
    return 0


def _short(rows: pd.DataFrame) -> pd.DataFrame:
    """Return the rows as text: numbers in six digits, blank where they are not known."""
    return rows.map(lambda cell: "" if pd.isna(cell) else f"{cell:.6g}" if isinstance(cell, float) else str(cell))
