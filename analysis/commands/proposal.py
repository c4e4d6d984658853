"""`proposal`: one or two pages for an application for compute time."""

import argparse
from functools import partial
from pathlib import Path

from analysis import TableError
from analysis import proposal as contents
from analysis.commands import arguments
from analysis.figures import figure_files, proposal_figure
from analysis.page import proposal_page
from analysis.proposal import Proposal, document
from analysis.proposal.facts import BLANK
from analysis.study import Study
from common.terminal import show
from record.run_files import write_file


def declare(parser: argparse.ArgumentParser) -> None:
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


def run(options: argparse.Namespace) -> int:
    """Write the proposal, and print the conclusions; returns the exit status."""
    study = Study(options.results)
    arguments.print_notices(study)
    images = (options.images or contents.MILLION) * options.epochs
    plan = contents.JobPlan(images, options.runs, bool(options.images), options.threshold, options.to)
    try:
        content = contents.proposal(study, options.experiment.split(","), plan, options.models or ())
    except TableError as error:
        raise TableError(f"{options.results}: {error}") from error
    write_proposal(content, options.out)
    for curve in content.curves:
        show(contents.sentence(curve, options.threshold))
    show(f"{options.out / 'proposal.html'}: to send, print it to a PDF from a browser (A4)")
    show(f"the same as proposal.md and proposal.tex, all numbers as proposal.csv; fill in what has the mark {BLANK}")
    return 0


def write_proposal(content: Proposal, folder: Path) -> None:
    """Write the document in each format, and its figure, into a folder."""
    figure_files.save(document.FIGURE, partial(proposal_figure.draw, content), folder)
    svg = (folder / f"{document.FIGURE}.svg").read_text()
    texts = {
        "html": proposal_page(document.title(content), document.sections(content), svg),
        "md": document.markdown(content),
        "tex": document.latex(content),
        "csv": document.table(content),
    }
    for suffix, text in texts.items():
        write_file(folder / f"proposal.{suffix}", text.encode(), replace=True)
