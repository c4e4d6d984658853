"""`reference`: write what the points of this machine measure into a file that a site keeps."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from analysis import TableError
from analysis.commands import arguments
from analysis.commands.history import measured
from analysis.history import points, reference, text, verdicts
from analysis.history.sessions import Session
from train.record import files


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("name", help="of the reference, as owens-2026-11")
    parser.add_argument("--experiment", help="only this one (default: all)")
    arguments.add_results(parser)
    arguments.add_period(parser)
    parser.add_argument("--folder", type=Path, default=reference.FOLDER, help="default: %(default)s")
    parser.add_argument("--force", action="store_true", help="replace a reference of this name")


def run(options: argparse.Namespace) -> int:
    """Write the reference and show it. Raises TableError where there is one, or nothing to put into it."""
    file = reference.path(options.name, options.folder)
    if file.exists() and not options.force:
        raise TableError(f"{file}: there is one of this name; FORCE=1 replaces it, another NAME= keeps both")
    sessions: list[Session] = []
    histories: dict[points.Key, points.Values] = {}
    for machine in measured(options.results, options.experiment, options.since):
        chosen = machine.sessions if options.since else machine.sessions[-1:]
        sessions += chosen
        histories |= points.histories(chosen)
    new = reference.new_reference(options.name, sessions, histories, options.within or verdicts.default_tolerance())
    if not new.points:
        raise TableError(f"{options.results}: no point that is a measurement of scaling: {_why(histories)}")
    _write(file, reference.dumps(new))
    print(text.summary(new), "", sep="\n")
    print(f"{file}: {len(new.points)} values of {len(new.records)} launches, {new.first_day} to {new.last_day}; "
          f"a value counts as the same within {100 * new.within:g} %")  # fmt: skip
    if any(len(point.launches) == 1 for point in new.points):
        print("values of one launch: how far launches differ is not known; REPEATS=3 or more tells")
    print(f"keep it with the kit (git add {file}); after maintenance: measure with FORCE=1, then "
          f"make check-reference NAME={options.name}")  # fmt: skip
    return 0


def _why(histories: dict[points.Key, points.Values]) -> str:
    return "; ".join(dict.fromkeys(why for values in histories.values() for why in values.lost.values()))


def _write(file: Path, text: bytes) -> None:
    """Put the text in place as a whole."""
    partial = file.with_name(f".{file.name}.part")
    partial.unlink(missing_ok=True)
    files.write_once(partial, text)
    os.replace(partial, file)
