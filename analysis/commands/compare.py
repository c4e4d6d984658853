"""`compare`: local records beside the published numbers, or A=FOLDER and B=FOLDER, two sets of local records."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from analysis import TableError
from analysis.commands import arguments
from analysis.compare import published, sets, text, tolerances


def declare(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument(
        "sets",
        nargs="*",
        metavar="A=FOLDER B=FOLDER",
        help="two sets of local records; without them, local and published",
    )
    arguments.add_results(parser)
    parser.add_argument(
        "--tolerances", type=Path, default=tolerances.TOLERANCES, metavar="FILE.toml",
        help="value, lower, upper, unit of each quantity (default: %(default)s)",
    )  # fmt: skip
    arguments.add_format(parser, "table", "markdown", "json")


def two_sets(texts: Sequence[str]) -> tuple[Path, Path]:
    """The folders of A and B. Raises TableError unless each is given once, as A=FOLDER B=FOLDER."""
    named = dict(argument.partition("=")[::2] for argument in texts)
    if set(named) != {"A", "B"} or len(texts) != 2 or not all(named.values()):
        raise TableError(f"{' '.join(texts)}: give both, as A=results-before B=results-after, or neither")
    return Path(named["A"]), Path(named["B"])


def run(options: argparse.Namespace) -> int:
    """Print the comparison; the exit status."""
    if options.sets:
        a, b = two_sets(options.sets)
        both = sets.compare(a, b)
        content: dict[str, Any] = both.as_json()
        sections, notes = text.sets_sections(both, a, b)
    else:
        if not options.results.is_dir():
            raise TableError(f"{options.results}: no such folder; measure first, or give the folder of local records")
        study = arguments.study(options)
        compared = published.compare(study.published, study.local, tolerances.read(options.tolerances))
        sections, notes = text.published_sections(compared)
        left_out, failed = ([str(notice) for notice in notices] for notices in (study.left_out, study.failed))
        content = compared.as_json() | {"left_out": left_out, "failed": failed}
        if not compared.rows:
            notes = {"Nothing to compare": [f"no complete run in {options.results} has a counterpart"]} | notes
        notes["Left out"] = left_out + [f"failed: {line}" for line in failed]
    if options.format == "json":
        print(json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False))
    else:
        print(text.FORMATS[options.format](sections, notes))
    return 0
