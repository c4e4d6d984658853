"""`list`: every figure, with what it shows; `draw`: figures as PDF, PNG and SVG, and their captions."""

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence

from tabulate import tabulate

from analysis import TableError
from analysis.commands import arguments
from analysis.figures import registry
from analysis.figures.entry import LOCAL, Entry


def declare_draw(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="which figures (see `list`); without any, all")
    arguments.add_results(parser)
    arguments.add_out(parser)


def chosen(ids: Sequence[str], figures: Mapping[str, Entry]) -> tuple[list[Entry], list[str]]:
    """Return the figures called `ids`, all without any; and the ids of figures that need records which do not exist.

    Raises TableError naming an id that no figure has.
    """
    missing = [id for id in ids if id not in figures]
    for id in missing:
        if not id.startswith(f"{LOCAL}-"):
            like = difflib.get_close_matches(id, figures, n=3) or sorted(figures)
            raise TableError(f"no figure is called '{id}'; did you mean {', '.join(like)}? `list` shows all")
    return [figures[id] for id in ids or figures if id not in missing], missing


def run_draw(options: argparse.Namespace) -> int:
    """Draw what was asked for, say what was left out; the exit status."""
    from analysis.figures import files  # with Matplotlib, which `list` does without

    study = arguments.study(options)
    figures = registry.figures(study.local)
    entries, missing = chosen(options.ids, figures)
    if not options.results.exists():
        print(f"{options.results}: no such folder: the published points alone are drawn", file=sys.stderr)
    arguments.print_notices(study.left_out)
    if failed := [notice for notice in study.failed if not notice.rounds]:
        print(f"{len(failed)} failed runs are not drawn", file=sys.stderr)
    drawn = files.draw(entries, study, options.out)
    files.write_captions(figures, study, options.out)
    if missing:
        print(f"not drawn, no records of it in {options.results}: {', '.join(missing)}")
    print(f"{len(drawn)} figures in {options.out}, captions in {options.out / 'captions.md'}")
    return 0


def declare_list(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    arguments.add_results(parser)


def run_list(options: argparse.Namespace) -> int:
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
