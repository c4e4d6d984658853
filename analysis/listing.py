"""`list`: every figure, with what it shows and how many points it has."""

import argparse
from pathlib import Path

from tabulate import tabulate

from analysis import figures, tables


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of one's own records")


def run(arguments: argparse.Namespace) -> int:
    """Print the figures as a table; the exit status."""
    published, own = tables.published(), tables.own(arguments.results)
    rows = []
    for entry in figures.load().values():
        points = entry.points(published, own.table)
        counts = (len(points.published), points.own["record"].nunique())
        rows.append((entry.id, entry.report, entry.shows, *(count or "-" for count in counts)))
    headers = ("id", "report", "shows", "published", "own")
    align = ("left", "left", "left", "right", "right")
    print(tabulate(rows, headers, disable_numparse=True, colalign=align))
    print(f"\npublished: numbers that the report states; own: complete runs in {arguments.results}")
    return 0
