"""`tables`: every derived number that the reports print, beside the computed one."""

import argparse

import pandas as pd
from tabulate import tabulate

from analysis import reports
from analysis.commands import arguments
from analysis.study import Study
from analysis.text import csv_text

_FOLLOWS = {True: "yes", False: "no"}


def declare_tables(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_out(parser, "figures/tables")


def run_tables(options: argparse.Namespace) -> int:
    """Write one CSV and one Markdown table a report, and print what does not follow; the exit status."""
    numbers = reports.recompute(Study().published)
    options.out.mkdir(parents=True, exist_ok=True)
    for report, rows in numbers.groupby("report"):
        (options.out / f"{report}.csv").write_text(csv_text(rows, float_format="%.6g"))
        text = tabulate(rows.astype(object).where(rows.notna(), ""), headers="keys", tablefmt="github", showindex=False)
        (options.out / f"{report}.md").write_text(f"# Report {report}: derived numbers, recomputed\n\n{text}\n")
    stated = numbers[numbers["stated"].notna()]
    open_ = [_open(row) for row in stated[~stated["agrees"].fillna(False)].to_dict("records")]
    print(tabulate(open_, headers="keys", tablefmt="simple", maxcolwidths=28, disable_numparse=True))
    for report, rows in stated.groupby("report"):
        yes, no = (int(rows["agrees"].eq(answer).sum()) for answer in (True, False))
        print(
            f"report {report}: {yes} of {len(rows)} stated numbers follow from its primary ones, {no} do not, "
            f"{len(rows) - yes - no} are not decidable"
        )
    print(f"all of them: {options.out}")
    return 0


def _open(row: dict) -> dict[str, str]:
    """Return a stated number that does not follow, or of which it is not decidable, for people."""
    ends = [row["computed"], row["computed_low"], row["computed_high"]]
    value, low, high = ("" if pd.isna(end) else f"{end:.4g}" for end in ends)
    return {
        "report": row["report"],
        "place": row["place"],
        "of": row["model"] or row["run"],
        "quantity": row["quantity"],
        "stated": f"{row['read_as']} {row['stated']:.4g}".strip(),
        "computed": value + (f" ({low} to {high})" if low and low != high else ""),
        "follows": "not decidable" if pd.isna(row["agrees"]) else _FOLLOWS[bool(row["agrees"])],
        "formula": row["formula"],
    }
