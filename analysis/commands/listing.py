"""`list`: every figure, with what it shows and how many points it has."""

import argparse
from pathlib import Path

from tabulate import tabulate

from analysis import registry
from analysis.study import Study


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of local records")


def run(options: argparse.Namespace) -> int:
    """Print the figures as a table; the exit status."""
    study = Study(options.results)
    rows = []
    for entry in registry.figures(study.local).values():
        points = entry.points(study)
        counts = (len(points.published), points.local["record"].nunique())
        rows.append((entry.id, entry.report, entry.shows, *(count or "-" for count in counts)))
    headers = ("id", "report", "shows", "published", "local")
    align = ("left", "left", "left", "right", "right")
    print(tabulate(rows, headers, disable_numparse=True, colalign=align))
    print(f"\npublished: numbers that the report states; local: complete runs in {options.results}")
    print("every experiment with records also has figures of its own, own-<experiment>-<kind>")
    return 0
