"""`compare`: local records beside the published numbers, or A= and B=, two sets of records or two tables."""

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from analysis import TableError, documents
from analysis.commands import arguments
from analysis.compare import published, sets, text
from analysis.compare.published import ReportComparison
from analysis.documents import Document, about, filled
from analysis.study import Study


class ReportComparisons(Document):
    """Local records beside the reports."""

    comparisons: Annotated[Sequence[ReportComparison], about("each number that both have")]
    local_alone: Annotated[Sequence[str], about("local records without a published counterpart")]
    published_alone: Annotated[Sequence[str], about("published numbers without a local one")]
    left_out: Annotated[Sequence[str], about("records that are not trusted, and why")]
    failed: Annotated[Sequence[str], about("runs that failed, and why")]


def declare_compare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "sets",
        nargs="*",
        metavar="A=FOLDER B=FOLDER",
        help="two sets of local records, or two tables of any kind (docs/tables.md); without them, local and published",
    )
    arguments.add(parser, "--columns", "--results")
    parser.add_argument(
        "--tolerances", type=Path, default=published.TOLERANCES, metavar="FILE.toml",
        help="value, lower, upper, unit of each quantity (default: %(default)s)",
    )  # fmt: skip
    arguments.add(parser, "--format", choices=("table", "markdown", "json"), default="table")


def two_sets(texts: Sequence[str]) -> tuple[Path, Path]:
    """Return the folders of A and B. Raises TableError unless each is given once, as A=FOLDER B=FOLDER."""
    named = dict(argument.partition("=")[::2] for argument in texts)
    if set(named) != {"A", "B"} or len(texts) != 2 or not all(named.values()):
        raise TableError(f"{' '.join(texts)}: give both, as A=results-before B=results-after, or neither")
    return Path(named["A"]), Path(named["B"])


def run_compare(options: argparse.Namespace) -> int:
    """Print the comparison; returns the exit status."""
    if options.sets:
        a, b = two_sets(options.sets)
        comparison = sets.compare(a, b, options.columns)
        content: Document = comparison
        sections, notes = text.sets_sections(comparison, a, b)
    else:
        if not options.results.is_dir():
            raise TableError(f"{options.results}: no such folder; measure first, or give the folder of local records")
        study = Study(options.results)
        compared = published.compare(study.published, study.local, published.read_tolerances(options.tolerances))
        sections, notes = text.published_sections(compared)
        left_out, failed = ([str(notice) for notice in notices] for notices in (study.left_out, study.failed))
        content = filled(ReportComparisons, compared, comparisons=compared.rows, left_out=left_out, failed=failed)
        if not compared.rows:
            notes = {"Nothing to compare": [f"no complete run in {options.results} has a counterpart"]} | notes
        notes["Left out"] = left_out + [f"failed: {line}" for line in failed]
    if options.format == "json":
        print(documents.text(content))
    else:
        print(text.FORMATS[options.format](sections, notes))
    return 0
