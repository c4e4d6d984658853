"""`report`: one HTML page with everything, or with one report beside its runs."""

import argparse
import sys
import tempfile
from pathlib import Path

from analysis.commands import arguments
from analysis.commands.draw import show_file
from analysis.figures import figure_files, registry
from analysis.page import ReportScope, analyse, page, report_scope
from analysis.study import Study
from analysis.table import tidy_columns
from common.terminal import show


def write_page(study: Study, out: Path, folder: Path | None = None, only: ReportScope | None = None) -> Study:
    """Write the page to `out`, and the figures with captions and data into `folder`; return what it shows.

    Prints the name of each figure once it is drawn. Without a folder the figures are only in the page. `only`: one
    report, with the outcome of its reproduction.
    """
    study = only.narrowed(study) if only else study
    figures = registry.figures(study.local)
    figures = only.figures(figures) if only else figures
    entries = list(figures.values())
    with tempfile.TemporaryDirectory() as temporary:
        drawn = folder or Path(temporary)
        formats = figure_files.FORMATS if folder else ("svg",)
        with figure_files.in_background(entries, study, drawn, show_file, formats):
            analysed = analyse(study, only)
        if folder:
            figure_files.write_captions(figures, study, folder)
            figure_files.write_data(entries, study, folder)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(analysed, entries, drawn), encoding="utf-8")
    return study


def declare(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--results")
    parser.add_argument("--figures", type=Path, help="also write the figures into this folder, as `draw` does")
    parser.add_argument("--report", choices=tidy_columns.REPORTS, help="one report alone, beside its runs")
    arguments.add(parser, "--out", default=Path("figures/report.html"))


def run(options: argparse.Namespace) -> int:
    """Write the page and print its path; returns the exit status."""
    if not options.results.exists():
        show(f"{options.results}: no such folder: the page has the reports alone", file=sys.stderr)
    study = Study(options.results)
    only = report_scope(options.report, study.published, options.results) if options.report else None
    shown = write_page(study, options.out, options.figures, only)
    arguments.print_notices(shown, shown.failed)
    show(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB, opens without a network")
    return 0
