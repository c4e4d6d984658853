"""`report`: one HTML page with everything: the reports, and the local runs."""

import argparse
import sys
from pathlib import Path

from analysis import registry
from analysis.commands import drawing
from analysis.commands.page import Content, page
from analysis.table import loading
from analysis.table.runs import Notice


def make(results: Path, folder: Path, out: Path) -> list[Notice]:
    """Draw all figures into `folder` and write the page to `out`; returns what was left out."""
    local, published = loading.local(results), loading.published()
    figures = registry.figures(local.table)
    drawing.draw(list(figures.values()), published, local.table, folder)
    drawing.write_captions(figures, published, local.table, folder)
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(page(Content(published, local, list(figures.values()), folder)), encoding="utf-8")
    return local.notices


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of local records")
    parser.add_argument("--figures", type=Path, default=Path("figures"), help="folder to draw the figures into")
    parser.add_argument("--out", type=Path, default=Path("figures/report.html"), help="default: %(default)s")


def run(options: argparse.Namespace) -> int:
    """Write the page and say where it is; the exit status."""
    for notice in make(options.results, options.figures, options.out):
        print(f"{'failed' if notice.failed else 'left out'}: {notice}", file=sys.stderr)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB, opens without a network")
    return 0
