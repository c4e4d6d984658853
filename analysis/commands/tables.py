"""`tables`: every derived number that the reports print, recomputed."""

import argparse
from pathlib import Path

from tabulate import tabulate

from analysis import reports
from analysis.commands import arguments
from analysis.documents import csv_text
from analysis.study import Study
from common.terminal import show


def declare(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--out", default=Path("figures/tables"))


def run(options: argparse.Namespace) -> int:
    """Write one CSV and one Markdown table a report, and print what does not follow; the exit status."""
    numbers = reports.recompute(Study().published)
    options.out.mkdir(parents=True, exist_ok=True)
    for report, rows in numbers.groupby("report"):
        (options.out / f"{report}.csv").write_text(csv_text(rows, float_format="%.6g"))
        text = tabulate(rows.astype(object).where(rows.notna(), ""), headers="keys", tablefmt="github", showindex=False)
        (options.out / f"{report}.md").write_text(f"# Report {report}: derived numbers, recomputed\n\n{text}\n")
    stated = numbers[numbers["stated"].notna()]
    show(f"{reports.counts(stated)}; all of them: {options.out}")
    for report, rows in stated.groupby("report"):
        show(f"  report {report}: {reports.counts(rows)}", hanging="    ")
    show("")
    unconfirmed = stated[~stated["agrees"].fillna(False)].to_dict("records")
    for row in unconfirmed:
        text = reports.text_row(row)
        number = ", ".join(filter(None, (f"report {row['report']}", text["place"], text["of"], text["quantity"])))
        values = f"stated {text['stated']}; computed {text['computed'] or 'nothing'}, {text['formula']}"
        show(f"{number}: {values}; agrees: {text['agrees']}", hanging="    ")
    return 0
