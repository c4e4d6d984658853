"""`tables`: every derived number that the reports print, beside the computed one."""

import argparse
from pathlib import Path

from tabulate import tabulate

from analysis.reports import derived
from analysis.table import loading


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--out", type=Path, default=Path("figures/tables"), help="folder to write into")


def run(options: argparse.Namespace) -> int:
    """Write one CSV and one Markdown table a report, and print what does not agree; the exit status."""
    found = derived.recompute(loading.published())
    options.out.mkdir(parents=True, exist_ok=True)
    for report, rows in found.groupby("report"):
        rows.to_csv(options.out / f"{report}.csv", index=False, float_format="%.6g")
        text = tabulate(rows.astype(object).where(rows.notna(), ""), headers="keys", tablefmt="github", showindex=False)
        (options.out / f"{report}.md").write_text(f"# Report {report}: derived numbers, recomputed\n\n{text}\n")
    said = found[found["stated"].notna()]
    off = said[~said["agrees"].fillna(False)]
    columns = ["report", "place", "model", "quantity", "read_as", "stated", "computed", "formula"]
    print(tabulate(off[columns], headers="keys", tablefmt="simple", showindex=False, maxcolwidths=28, floatfmt=".4g"))
    for report, rows in said.groupby("report"):
        print(
            f"report {report}: {int(rows['agrees'].sum())} of {len(rows)} stated numbers follow from its primary ones"
        )
    print(f"all of them: {options.out}")
    return 0
