"""`list` prints the figures, `draw` draws them, `report` and `proposal` write pages with them."""

from __future__ import annotations

import argparse
import difflib
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from analysis import TableError
from analysis.commands import arguments
from analysis.figures import LOCAL, Entry, files, registry
from analysis.study import Study
from analysis.table import schema
from common.terminal import text_table
from record.run_files import write_whole

if TYPE_CHECKING:  # `list` does not import Jinja, nor the audit
    from analysis.page import Scope
    from analysis.proposal import Proposal


def declare_draw(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("ids", nargs="*", metavar="ID", help="which figures (see `list`); without any, all")
    parser.add_argument("--small", action="store_true", help="PNGs with few, large words, for a third of a page")
    arguments.add(parser, "--results", "--out")


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
    """Draw the requested figures, and print what was left out; returns the exit status."""
    study = Study(options.results)
    figures = registry.figures(study.local)
    entries, missing = chosen(options.ids, figures)
    if not options.results.exists():
        print(f"{options.results}: no such folder: the published points alone are drawn", file=sys.stderr)
    arguments.print_notices(study)
    if failed := [notice for notice in study.failed if not (notice.rounds or notice.settled)]:
        print(f"{len(failed)} failed runs are not drawn", file=sys.stderr)
    if options.small:
        for entry in entries:
            files.save(entry.id, partial(entry.draw, entry.points(study)), options.out, ("png",), small=True)
            show(entry.id)
    else:
        files.draw(entries, study, options.out, show)
        files.write_captions(figures, study, options.out)
    if missing:
        print(f"not drawn, no records of it in {options.results}: {', '.join(missing)}")
    captions = "" if options.small else f", captions in {options.out / 'captions.md'}"
    print(f"{len(entries)} figures in {options.out}{captions}")
    return 0


def declare_list(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--results")


def run_list(options: argparse.Namespace) -> int:
    """Print the figures as a table; returns the exit status."""
    study = Study(options.results)
    arguments.print_notices(study)
    rows = []
    for entry in registry.figures(study.local).values():
        points = entry.points(study)
        counts = (len(points.published), points.local["record"].nunique())
        rows.append((entry.id, entry.report, entry.shows, *(count or "-" for count in counts)))
    print(text_table(pd.DataFrame(rows, columns=["id", "report", "shows", "published", "local"])))
    print(f"\npublished: numbers that the report states; local: complete runs in {options.results}")
    print("every experiment with records also has figures: own-<experiment>-<kind>")
    return 0


def show(name: str) -> None:
    """Print the name of a figure or file that was written."""
    print(f"  {name}", flush=True)


def write_page(study: Study, out: Path, folder: Path | None = None, only: Scope | None = None) -> Study:
    """Write the page to `out`, and the figures with captions and data into `folder`; return what it shows.

    Prints the name of each figure once it is drawn. Without a folder the figures are only in the page. `only`: one
    report, with the outcome of its reproduction.
    """
    from analysis.page import analyse, page

    study = only.narrowed(study) if only else study
    figures = registry.figures(study.local)
    figures = only.figures(figures) if only else figures
    entries = list(figures.values())
    with tempfile.TemporaryDirectory() as temporary:
        drawn = folder or Path(temporary)
        formats = files.FORMATS if folder else ("svg",)
        with files.in_background(entries, study, drawn, show, formats):
            analysed = analyse(study, only)
        if folder:
            files.write_captions(figures, study, folder)
            files.write_data(entries, study, folder)
        out.parent.mkdir(parents=True, exist_ok=True)
        out.write_text(page(analysed, entries, drawn), encoding="utf-8")
    return study


def declare_report(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--results")
    parser.add_argument("--figures", type=Path, help="also write the figures into this folder, as `draw` does")
    parser.add_argument("--report", choices=schema.REPORTS, help="one report alone, beside its runs")
    arguments.add(parser, "--out", default=Path("figures/report.html"))


def run_report(options: argparse.Namespace) -> int:
    """Write the page and print its path; returns the exit status."""
    from analysis.page import report_scope

    if not options.results.exists():
        print(f"{options.results}: no such folder: the page has the reports alone", file=sys.stderr)
    study = Study(options.results)
    only = report_scope(options.report, study.published, options.results) if options.report else None
    shown = write_page(study, options.out, options.figures, only)
    arguments.print_notices(shown, shown.failed)
    print(f"{options.out}: {options.out.stat().st_size / 1e6:.1f} MB, opens without a network")
    return 0


def declare_proposal(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "--experiment", default="weak_scaling,strong_scaling", metavar="A,B",
                  help="experiments with records (default: %(default)s)")  # fmt: skip
    parser.add_argument("--threshold", type=arguments.fraction, default=0.75, metavar="FRACTION",
                        help="the least efficiency that the centre asks for (default: %(default)s)")  # fmt: skip
    arguments.add(parser, "--models")
    parser.add_argument("--to", type=arguments.ranks, default=(), metavar="N,N",
                        help="nodes to predict (default: twice and four times the largest)")  # fmt: skip
    arguments.add(parser, "--images", "--epochs")
    parser.add_argument("--runs", type=arguments.count, default=1, metavar="N", help="to apply for (default: 1)")
    arguments.add(parser, "--out", "--results")


def run_proposal(options: argparse.Namespace) -> int:
    """Write the proposal, and print the conclusions; returns the exit status."""
    from analysis import proposal as contents
    from analysis.proposal.facts import BLANK

    study = Study(options.results)
    arguments.print_notices(study)
    images = (options.images or contents.MILLION) * options.epochs
    plan = contents.Plan(images, options.runs, bool(options.images), options.threshold, options.to)
    try:
        content = contents.proposal(study, options.experiment.split(","), plan, options.models or ())
    except TableError as error:
        raise TableError(f"{options.results}: {error}") from error
    write_proposal(content, options.out)
    for curve in content.curves:
        print(contents.sentence(curve, options.threshold))
    print(f"{options.out / 'proposal.html'}: to send, print it to a PDF from a browser (A4)")
    print(f"the same as proposal.md and proposal.tex, all numbers as proposal.csv; fill in what has the mark {BLANK}")
    return 0


def write_proposal(content: Proposal, folder: Path) -> None:
    """Write the document in each format, and its figure, into a folder."""
    from analysis.figures import proposal as figure
    from analysis.page import proposal_page
    from analysis.proposal import document

    files.save(document.FIGURE, partial(figure.draw, content), folder)
    svg = (folder / f"{document.FIGURE}.svg").read_text()
    texts = {
        "html": proposal_page(document.title(content), document.sections(content), svg),
        "md": document.markdown(content),
        "tex": document.latex(content),
        "csv": document.table(content),
    }
    for suffix, text in texts.items():
        write_whole(folder / f"proposal.{suffix}", text.encode())
