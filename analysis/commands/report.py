"""`report`: one HTML page with everything: the reports, and the local runs; or one report beside its runs."""

import argparse
import sys
import tempfile
from pathlib import Path

from analysis.commands import arguments
from analysis.figures import files, registry
from analysis.page.page import Scope, about, analyse, page, report_scope
from analysis.study import Study
from analysis.table import schema
from analysis.table.runs import Notice


def make(study: Study, out: Path, folder: Path | None = None, only: Scope | None = None) -> list[Notice]:
    """Write the page to `out`, and the figures with captions and data into `folder`; returns what was left out.

    Without a folder the figures are drawn as the page needs them, and not kept. `only`: of this report alone, with what
    its reproduction came to.
    """
    study = only.narrowed(study) if only else study
    figures = registry.figures(study.local)
    figures = only.figures(figures) if only else figures
    entries = list(figures.values())
    with tempfile.TemporaryDirectory() as temporary:
        drawn = folder or Path(temporary)
        formats = files.FORMATS if folder else ("svg",)
        with files.in_background(entries, study, drawn, formats):
            analysed = analyse(study)
            analysed = about(analysed, only.report) if only else analysed
        if folder:
            files.write_captions(figures, study, folder)
            files.write_data(entries, study, folder)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(analysed, entries, drawn, only), encoding="utf-8")
    return study.notices


def declare_report(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_results(parser)
    parser.add_argument("--figures", type=Path, help="also write the figures into this folder, as `draw` does")
    parser.add_argument("--report", choices=schema.REPORTS, help="one report alone, beside its runs")
    arguments.add_out(parser, "figures/report.html")


def run_report(options: argparse.Namespace) -> int:
    """Write the page and say where it is; the exit status."""
    if not options.results.exists():
        print(f"{options.results}: no such folder: the page has the reports alone", file=sys.stderr)
    study = arguments.study(options)
    only = report_scope(options.report, study.published, options.results) if options.report else None
    arguments.print_notices(make(study, options.out, options.figures, only))
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB, opens without a network")
    return 0
