"""`draw`: the figures as PDF, PNG, SVG, with their captions."""

import argparse
import difflib
import sys
from collections.abc import Mapping, Sequence
from functools import partial

from analysis import TableError
from analysis.commands import arguments
from analysis.figures import LOCAL, FigureEntry, figure_files, registry
from analysis.study import Study
from common.terminal import show


def declare(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="which figures (see `list`); without any, all")
    parser.add_argument("--small", action="store_true", help="PNGs with few, large words, for a third of a page")
    arguments.add(parser, "--results", "--out")


def chosen(ids: Sequence[str], figures: Mapping[str, FigureEntry]) -> tuple[list[FigureEntry], list[str]]:
    """Return the figures called `ids`, all without any; and the ids of figures that need records which do not exist.

    Raises TableError naming an id that no figure has.
    """
    missing = [id for id in ids if id not in figures]
    for id in missing:
        if not id.startswith(f"{LOCAL}-"):
            like = difflib.get_close_matches(id, figures, n=3) or sorted(figures)
            raise TableError(f"no figure is called '{id}'; did you mean {', '.join(like)}? `list` shows all")
    return [figures[id] for id in ids or figures if id not in missing], missing


def run(options: argparse.Namespace) -> int:
    """Draw the requested figures, and print what was left out; returns the exit status."""
    study = Study(options.results)
    figures = registry.figures(study.local)
    entries, missing = chosen(options.ids, figures)
    if not options.results.exists():
        show(f"{options.results}: no such folder: the published points alone are drawn", file=sys.stderr)
    arguments.print_notices(study)
    if failed := [notice for notice in study.failed if not (notice.rounds or notice.settled)]:
        show(f"{len(failed)} failed runs are not drawn", file=sys.stderr)
    if options.small:
        for entry in entries:
            figure_files.save(entry.id, partial(entry.draw, entry.points(study)), options.out, ("png",), small=True)
            show_file(entry.id)
    else:
        figure_files.draw(entries, study, options.out, show_file)
        figure_files.write_captions(figures, study, options.out)
    if missing:
        show(f"not drawn, no records of it in {options.results}: {', '.join(missing)}")
    captions = "" if options.small else f", captions in {options.out / 'captions.md'}"
    show(f"{len(entries)} figures in {options.out}{captions}")
    return 0


def show_file(name: str) -> None:
    """Print the name of a figure or file that was written."""
    show(f"  {name}")
