"""`list`: every figure, with what it shows and how many points it has."""

import argparse

from tabulate import tabulate

from analysis.commands import arguments
from analysis.figures import registry


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_results(parser)


def run(options: argparse.Namespace) -> int:
    """Print the figures as a table; the exit status."""
    study = arguments.study(options)
    rows = []
    for entry in registry.figures(study.local).values():
        points = entry.points(study)
        counts = (len(points.published), points.local["record"].nunique())
        rows.append((entry.id, entry.report, entry.shows, *(count or "-" for count in counts)))
    headers = ("id", "report", "shows", "published", "local")
    align = ("left", "left", "left", "right", "right")
    print(tabulate(rows, headers, disable_numparse=True, colalign=align))
    print(f"\npublished: numbers that the report states; local: complete runs in {options.results}")
    print("every experiment with records also has figures: own-<experiment>-<kind>")
    return 0
