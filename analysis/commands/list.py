"""`list`: the figures, with how many published and local points they have."""

import argparse

import pandas as pd

from analysis.commands import arguments
from analysis.figures import registry
from analysis.study import Study
from common.terminal import show, text_table


def declare(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--results")


def run(options: argparse.Namespace) -> int:
    """Print the figures as a table; returns the exit status."""
    study = Study(options.results)
    arguments.print_notices(study)
    rows = []
    for entry in registry.figures(study.local).values():
        points = entry.points(study)
        counts = (len(points.published), points.local["record"].nunique())
        rows.append((entry.id, entry.report, entry.shows, *(count or "-" for count in counts)))
    print(text_table(pd.DataFrame(rows, columns=["id", "report", "shows", "published", "local"])))
    show(
        f"\npublished: numbers that the report states; local: complete runs in {options.results}",
        "every experiment with records also has figures: own-<experiment>-<kind>",
    )
    return 0
