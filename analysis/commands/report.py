"""`report`: one HTML page with everything: the reports, and the local runs."""

import argparse
import sys
import tempfile
from pathlib import Path

from analysis import registry
from analysis.commands import drawing
from analysis.commands.page import analyse, page
from analysis.table import loading
from analysis.table.runs import Notice


def make(results: Path, out: Path, folder: Path | None = None) -> list[Notice]:
    """Write the page to `out`, and the figures with their captions into `folder`; returns what was left out.

    Without a folder the figures are drawn as the page needs them, and not kept.
    """
    local, published = loading.local(results), loading.published()
    figures = registry.figures(local.table)
    entries = list(figures.values())
    with tempfile.TemporaryDirectory() as temporary:
        drawn = folder or Path(temporary)
        formats = drawing.FORMATS if folder else ("svg",)
        with drawing.in_background(entries, published, local.table, drawn, formats):
            analysed = analyse(published, local)
        if folder:
            drawing.write_captions(figures, published, local.table, folder)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(analysed, entries, drawn), encoding="utf-8")
    return local.notices


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of local records")
    parser.add_argument("--figures", type=Path, help="also write the figures into this folder, as `draw` does")
    parser.add_argument("--out", type=Path, default=Path("figures/report.html"), help="default: %(default)s")


def run(options: argparse.Namespace) -> int:
    """Write the page and say where it is; the exit status."""
    for notice in make(options.results, options.out, options.figures):
        print(f"{'failed' if notice.failed else 'left out'}: {notice}", file=sys.stderr)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB, opens without a network")
    return 0
