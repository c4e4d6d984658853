"""`compare`: local records beside the published numbers, or A= and B=, two sets of records or two tables."""

import argparse
from collections.abc import Sequence
from pathlib import Path

from msgspec import structs

from analysis import TableError, atlas, documents
from analysis.commands import arguments
from analysis.compare import Comparisons, comparison_text, published, sets
from analysis.study import Study


def declare(parser: argparse.ArgumentParser) -> None:
    sets_help = "two sets of local records, or two tables (docs/tables.md); without them, local and published"
    parser.add_argument("sets", nargs="*", metavar="A=FOLDER B=FOLDER", help=sets_help)
    arguments.add(parser, "--columns", "--results", "--format")


def two_sets(texts: Sequence[str]) -> tuple[Path, Path]:
    """Return the folders of A and B. Raises TableError unless each is given once, as A=FOLDER B=FOLDER."""
    named = dict(argument.partition("=")[::2] for argument in texts)
    if set(named) != {"A", "B"} or len(texts) != 2 or not all(named.values()):
        raise TableError(f"{' '.join(texts)}: give both, as A=results-before B=results-after, or neither")
    return Path(named["A"]), Path(named["B"])


def _with_published(results: Path) -> Comparisons:
    if not results.is_dir():
        raise TableError(f"{results}: no such folder; measure first, or give the folder of local records")
    study = Study(results)
    compared = published.compare(study.published, study.local, published.read_tolerances())
    failed = [f"failed: {notice}" for notice in study.failed]
    left_out = [*map(str, study.left_out), *failed, *study.trust()]
    return structs.replace(compared, left_out=left_out, placements=atlas.placements(study.local))


def run(options: argparse.Namespace) -> int:
    """Print the comparison; returns the exit status."""
    if options.sets:
        compared = sets.compare(*two_sets(options.sets), options.columns)
        tables, notes = comparison_text.sets_tables(compared)
    else:
        compared = _with_published(options.results)
        tables, notes = comparison_text.published_tables(compared)
        if not compared.comparisons:
            notes = {"Nothing to compare": [f"no complete run in {options.results} has a counterpart"]} | notes
        notes["Left out"] = compared.left_out
    print(documents.text(compared) if options.format == "json" else comparison_text.text(tables, notes))
    return 0
