"""`list`: every figure, with what it shows and how many points it has."""

import argparse
from pathlib import Path

from analysis import figures, tables


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of one's own records")


def run(arguments: argparse.Namespace) -> int:
    """Print the figures as a table; the exit status."""
    from rich.console import Console
    from rich.table import Table

    published, own = tables.published(), tables.own(arguments.results)
    shown = Table("id", "report", "shows", box=None, header_style="bold")
    shown.add_column("published", justify="right")
    shown.add_column("own", justify="right")
    for entry in figures.load().values():
        points = entry.points(published, own.table)
        counts = (len(points.published), points.own["record"].nunique())
        shown.add_row(entry.id, entry.report, entry.shows, *(str(count or "-") for count in counts))
    Console().print(shown)
    print("published: numbers that the report states; own: complete runs in", arguments.results)
    return 0
