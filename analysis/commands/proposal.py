"""`proposal`: one or two pages for an application for compute time, as PDF and HTML."""

import argparse
from functools import partial
from pathlib import Path

from analysis import TableError
from analysis import proposal as contents
from analysis.commands import arguments
from analysis.proposal import MILLION, Plan, Proposal
from train.record import files


def declare_proposal(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--experiment", default="weak_scaling,strong_scaling", metavar="A,B",
                        help="experiments with records (default: %(default)s)")  # fmt: skip
    parser.add_argument("--threshold", type=arguments.fraction, default=0.75, metavar="FRACTION",
                        help="the least efficiency that the centre asks for (default: %(default)s)")  # fmt: skip
    arguments.add_models(parser)
    parser.add_argument("--to", type=arguments.ranks, default=(), metavar="N,N",
                        help="nodes to predict (default: twice and four times the largest)")  # fmt: skip
    arguments.add_job(parser)
    parser.add_argument("--runs", type=int, default=1, metavar="N", help="runs that are applied for (default: 1)")
    arguments.add_out(parser)
    arguments.add_results(parser)


def run_proposal(options: argparse.Namespace) -> int:
    """Write proposal.pdf and proposal.html, and say what they conclude; the exit status."""
    if options.runs < 1:
        raise TableError(f"--runs: {options.runs} given, must be at least 1")
    study = arguments.study(options)
    arguments.print_notices(study.left_out)
    experiments = [name.replace("-", "_") for name in options.experiment.split(",")]
    plan = Plan((options.images or MILLION) * options.epochs, options.runs, bool(options.images))
    try:
        content = contents.proposal(study, experiments, options.threshold, plan, options.to, options.models or ())
    except TableError as error:
        raise TableError(f"{options.results}: {error}") from error
    pages = write(content, options.out)
    for curve in content.curves:
        print(contents.sentence(curve, content.threshold))
    print(f"{options.out / 'proposal.pdf'} ({pages} pages), {options.out / 'proposal.html'}")
    return 0


def write(content: Proposal, folder: Path) -> int:
    """Write the document into a folder; returns the pages of the PDF."""
    from analysis.figures import files as figure_files
    from analysis.figures import proposal as figure
    from analysis.page.page import proposal_page

    sections, title = contents.sections(content), contents.title(content)
    figure_files.save("proposal-scaling", partial(figure.draw, content), folder)
    svg = (folder / "proposal-scaling.svg").read_text()
    files.write_whole(folder / "proposal.html", proposal_page(title, sections, svg).encode())
    return figure.write_pdf(content, sections, title, folder / "proposal.pdf")
