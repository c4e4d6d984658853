"""`tune`: the arms of a contest ranked, and the fastest as a file of conf/system."""

import argparse
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import pandas as pd

from analysis import TableError, documents
from analysis.commands import arguments
from analysis.documents import Document, about
from analysis.experiments import arms
from analysis.study import Study
from common.terminal import show
from record.run_files import write_file
from record.this_kit import ROOT

SYSTEMS = ROOT / "conf/system"


class Tuning(Document):
    """The contests of an experiment."""

    contests: Annotated[Sequence[arms.RankedContest], about("one for each model, machine and number of ranks")]


def declare(parser: argparse.ArgumentParser) -> None:
    arguments.add(parser, "experiment", nargs="?", default="tune", help="whose arms compete (default: %(default)s)")
    arguments.add(parser, "--models")
    parser.add_argument("--write", metavar="NAME", help="write the fastest settings into conf/system/NAME.yaml")
    parser.add_argument("--dry-run", action="store_true", help="only check that --write could write NAME")
    arguments.add(parser, "--format", "--results")


def run(options: argparse.Namespace) -> int:
    """Print the ranking of each contest, and write the winner's settings on request; returns 1 without a contest.

    Raises TableError without a record, or if the file cannot be written: at first if its name is wrong or it exists;
    after the ranking if the contests have no common winner.
    """
    path = _settings_path(options.write) if options.write else None
    if options.dry_run:
        return 0
    study = Study(options.results)
    arguments.print_notices(study, experiment=options.experiment)
    rows = arguments.experiment_rows(options, study)
    contests = arms.contests(rows, study.records)
    if not contests:
        why = f"no complete runs of the base and of another arm of {options.experiment}"
        show(f"{options.results}: {why}", file=sys.stderr)
        return 1
    text = "\n\n".join(map(arms.report, contests))
    print(documents.text(Tuning(contests=contests)) if options.format == "json" else text)
    if path and any(contest.winner for contest in contests):
        _write_settings(contests, rows, study, path)
        show(f"\nwritten: {path}. Use it with SYSTEM={options.write}", file=arguments.notes_stream(options))
    elif path:
        show(f"\n{path} is not written: there are no faster settings", file=arguments.notes_stream(options))
    return 0


def _settings_path(name: str) -> Path:
    """Return the file that is to be written. Raises TableError where it cannot be."""
    if not re.fullmatch(r"[A-Za-z0-9_]+", name):
        raise TableError(f"WRITE={name}: a name of letters, digits and _ is needed")
    path = SYSTEMS / f"{name}.yaml"
    if path.exists():
        raise TableError(f"WRITE={name}: {path} exists, and is not replaced; give another name")
    return path


def _write_settings(contests: list[arms.RankedContest], rows: pd.DataFrame, study: Study, path: Path) -> None:
    if len({contest.winner for contest in contests}) > 1:
        raise TableError(f"WRITE={path.stem}: the models have different winners; choose one with MODELS=")
    try:
        write_file(path, arms.system_file(contests[0], rows, study.records, path).encode())
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}; give another name") from error
