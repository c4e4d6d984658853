"""`report`: one HTML page with everything: the reports, and the local runs; or one report beside its runs."""

import argparse
import sys
import tempfile
from pathlib import Path

from analysis import registry
from analysis.figure_files import drawing, figure_data
from analysis.page import scope
from analysis.page.page import about, analyse, page
from analysis.table import loading, schema
from analysis.table.runs import Notice


def make(results: Path, out: Path, folder: Path | None = None, report: str | None = None) -> list[Notice]:
    """Write the page to `out`, and the figures with captions and data into `folder`; returns what was left out.

    Without a folder the figures are drawn as the page needs them, and not kept. `report`: of this one alone, with what
    its reproduction came to.
    """
    local, published = loading.local(results), loading.published()
    only = scope.of(report, published, results) if report else None
    local = only.local(local) if only else local
    figures = registry.figures(local.table)
    figures = only.figures(figures) if only else figures
    entries = list(figures.values())
    with tempfile.TemporaryDirectory() as temporary:
        drawn = folder or Path(temporary)
        formats = drawing.FORMATS if folder else ("svg",)
        with drawing.in_background(entries, published, local.table, drawn, formats):
            analysed = analyse(published, local)
            analysed = about(analysed, only.report) if only else analysed
        if folder:
            drawing.write_captions(figures, published, local.table, folder)
            figure_data.write(entries, published, local.table, folder)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(analysed, entries, drawn, only), encoding="utf-8")
    return local.notices


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of local records")
    parser.add_argument("--figures", type=Path, help="also write the figures into this folder, as `draw` does")
    parser.add_argument("--report", choices=schema.REPORTS, help="one report alone, beside its runs")
    parser.add_argument("--out", type=Path, default=Path("figures/report.html"), help="default: %(default)s")


def run(options: argparse.Namespace) -> int:
    """Write the page and say where it is; the exit status."""
    if not options.results.exists():
        print(f"{options.results}: no such folder: the page has the reports alone", file=sys.stderr)
    for notice in make(options.results, options.out, options.figures, options.report):
        print(f"{'failed' if notice.failed else 'left out'}: {notice}", file=sys.stderr)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB, opens without a network")
    return 0
