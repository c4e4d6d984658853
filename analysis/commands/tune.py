"""`tune`: which settings of the exchange are fastest here, ranked, and the best of them as a file of conf/system."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from analysis import TableError, documents
from analysis.commands import arguments
from analysis.documents import Document, about
from analysis.experiments import ranking
from analysis.experiments.ranking import Contest, RankedContest
from train.record.files import write_once

CONF = Path(__file__).resolve().parents[2] / "conf"


class Tuning(Document):
    """The contests of an experiment."""

    contests: Annotated[Sequence[RankedContest], about("one for each model, machine and number of ranks")]


def declare_tune(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("experiment", nargs="?", default="tune", help="whose arms compete (default: %(default)s)")
    arguments.add_models(parser)
    parser.add_argument("--write", metavar="NAME", help="write the fastest settings into conf/system/NAME.yaml")
    parser.add_argument("--dry-run", action="store_true", help="only check that --write could write NAME")
    parser.add_argument("--conf", type=Path, default=CONF, metavar="DIR", help="folder of the configuration")
    arguments.add_format(parser, "text", "json")
    arguments.add_results(parser)


def run_tune(options: argparse.Namespace) -> int:
    """Print the ranking of each contest, and write the winner's settings where that is asked; 1 without a contest.

    Raises TableError where the file cannot be written: before anything else for its name, and because it exists; after
    the ranking where the contests have no common winner.
    """
    path = _path(options.conf / "system", options.write) if options.write else None
    if options.dry_run:
        return 0
    study = arguments.study(options)
    arguments.print_notices(study.left_out)
    rows = study.local[study.local["experiment"].eq(options.experiment)]
    if options.models:
        rows = rows[rows["model"].isin(options.models)]
    contests = ranking.contests(rows, study.records)
    if not contests:
        print(
            f"{options.results}: no complete runs of the base and of another arm of {options.experiment}",
            file=sys.stderr,
        )
        return 1
    if options.format == "json":
        print(documents.text(Tuning(contests=[ranking.as_json(contest) for contest in contests])))
    else:
        print("\n\n".join(ranking.report(contest) for contest in contests))
    if path:
        _write(contests, path)
        where = arguments.beside(options)
        print(f"\nwritten: {path}. Use it with SYSTEM={options.write}", file=where)
    return 0


def _path(folder: Path, name: str) -> Path:
    """Return the file that is to be written. Raises TableError where it cannot be."""
    if not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise TableError(f"--write {name}: a name of letters, digits and _ is needed (WRITE=)")
    path = folder / f"{name}.yaml"
    if path.exists():
        raise TableError(f"{path}: it exists, and is not replaced; give another name (WRITE=)")
    return path


def _write(contests: list[Contest], path: Path) -> None:
    """Write the winner's settings. Raises TableError."""
    name = path.stem
    winners = {contest.winner.name if contest.winner else None for contest in contests}
    if len(winners) > 1:
        raise TableError(f"--write {name}: the models have different winners; choose one with --models (MODELS=)")
    if winners == {None}:
        raise TableError(f"--write {name}: no arm is faster than {contests[0].base}, so there is nothing to write")
    try:
        write_once(path, ranking.system_file(contests[0], name, path.parent).encode())
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}; give another name") from error
