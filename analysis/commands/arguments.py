"""The arguments that several commands share, each declared once, and functions for them."""

import argparse
import datetime
import math
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any, TextIO, TypeVar

import pandas as pd

from analysis import TableError
from analysis.study import Study
from analysis.table.record_rows import Notice
from common.printable import escaped
from common.terminal import show
from record import recorded_config

_Value = TypeVar("_Value")


def _reader(
    convert: Callable[[str], _Value], allows: Callable[[_Value], bool], allowed: str
) -> Callable[[str], _Value]:
    """Return a function that reads the value of an argument, or raises ArgumentTypeError naming what is allowed."""

    def read(text: str) -> _Value:
        try:
            value = convert(text)
            if allows(value):
                return value
        except ValueError:
            pass
        raise argparse.ArgumentTypeError(f"'{text}' given; allowed: {allowed}")

    return read


def _whole_numbers(text: str) -> tuple[int, ...]:
    return tuple(dict.fromkeys(int(number) for number in text.split(",")))


ranks = _reader(_whole_numbers, lambda numbers: min(numbers) >= 1, "whole numbers of at least 1, as 16,64,256")
count = _reader(int, lambda number: number >= 1, "a whole number of at least 1")
positive = _reader(float, lambda number: 0 < number < math.inf, "a number above 0")
fraction = _reader(float, lambda number: 0 < number < 1, "a fraction between 0 and 1, as 0.05")
day = _reader(lambda text: datetime.date.fromisoformat(text).isoformat(), bool, "a day, as 2026-11-01")


def experiment(text: str) -> str:
    """Return the name of an experiment, which may be written as that of a target: "weak_scaling" of "weak-scaling"."""
    return text.replace("-", "_")


_SHARED: dict[str, dict[str, Any]] = {
    "experiment": {"type": experiment, "help": "its name in conf/experiment, as weak_scaling"},
    "--experiment": {"type": experiment, "metavar": "NAME", "help": "local records of this experiment"},
    "--results": {"type": Path, "default": Path("results"), "metavar": "FOLDER",
                  "help": "local records (default: %(default)s)"},
    "--format": {"choices": ("text", "json"), "default": "text", "help": "default: %(default)s"},
    "--out": {"type": Path, "default": Path("figures"), "metavar": "PATH", "help": "default: %(default)s"},
    "--all": {"action": "store_true", "help": "those of the reports in full, too"},
    "--draw": {"action": "store_true", "help": "draw the figures of it"},
    "--models": {"type": lambda text: text.split(","), "metavar": "A,B", "help": "only these models (default: all)"},
    "--strict": {"action": "store_true", "help": "exit status 1 if a point is worse"},
    "--junit": {"type": Path, "metavar": "FILE", "help": "write the results to this file as JUnit, too"},
    "--images": {"type": positive, "metavar": "N", "help": "images of the job, in each epoch"},
    "--epochs": {"type": positive, "default": 1, "metavar": "N", "help": "default: %(default)s"},
    "--columns": {"default": "", "metavar": "HEADER=NAME,...", "help": "what headers of FILE mean (docs/tables.md)"},
    "--since": {"type": day, "metavar": "DAY", "help": "leave out sessions that began earlier"},
    "--within": {"type": fraction, "metavar": "FRACTION", "help": "up to this far off a value counts as the same "
                 "(default: same of analysis/thresholds.toml)"},
}  # fmt: skip


def add(parser: argparse.ArgumentParser | argparse._MutuallyExclusiveGroup, *names: str, **changes: Any) -> None:
    """Declare shared arguments; changes: other arguments of `add_argument` for them."""
    for name in names:
        parser.add_argument(name, **(_SHARED[name] | changes))


def experiment_rows(options: argparse.Namespace, study: Study, steps: bool = False) -> pd.DataFrame:
    """Return the local rows of the experiment, and of the requested models. steps: those of its steps are needed.

    Raises TableError if an experiment or a model has none, naming those that have some, or if a user's program has no
    step times.
    """
    rows = study.local
    for column, chosen in (("experiment", [options.experiment]), ("model", getattr(options, "models", None) or [])):
        available = sorted(set(rows[column]))
        if missing := ", ".join(name for name in chosen if name not in available):
            others = ", ".join(available) or "none"
            raise TableError(f"{options.results}: no complete run of {column} '{missing}' (there are: {others})")
        rows = rows[rows[column].isin(chosen)] if chosen else rows
    if steps and rows["backend"].eq(recorded_config.PROGRAM).all():
        raise TableError(
            f"{options.results}, {options.experiment}: the rate is the program's own number. Its records have no step "
            "times, so no speedup by wall time, diagnosis or make explain (docs/program.md)"
        )
    return rows


def show_figures(options: argparse.Namespace, ids: Iterable[str]) -> None:
    """Print the names of the figures that are drawn, in one line: each takes a second."""
    show(f"\nfigures in {options.out} (pdf, png, svg): {', '.join(ids)}", file=notes_stream(options))


def notes_stream(options: argparse.Namespace) -> TextIO:
    """Return the stream for notes on the result: but for --format text, standard output holds the document alone."""
    return sys.stdout if options.format == "text" else sys.stderr


def print_notices(study: Study, failed: Iterable[Notice] = (), experiment: str | None = None) -> None:
    """Print which records are left out, which runs failed, and whether records are what their launches wrote.

    experiment: the only one whose records are used.
    """
    used = [notice for notice in failed if experiment is None or experiment in Path(notice.path).parts]
    notices = (f"{'failed' if notice.failed else 'left out'}: {notice}" for notice in (*study.left_out, *used))
    show(*notices, *study.trust(experiment), file=sys.stderr)


def write_junit(path: Path, command: str, failures: Mapping[str, str]) -> None:
    """Write a test case for each name; one whose text is not empty has failed, with that text as its message."""
    failed = [text for text in failures.values() if text]
    suite = ElementTree.Element("testsuite", name=command, tests=str(len(failures)), failures=str(len(failed)))
    for name, text in failures.items():
        case = ElementTree.SubElement(suite, "testcase", classname=command, name=escaped(name))
        if text:
            lines = escaped(text)
            ElementTree.SubElement(case, "failure", message=lines.partition("\n")[0]).text = lines
    path.parent.mkdir(parents=True, exist_ok=True)
    ElementTree.ElementTree(suite).write(path, encoding="utf-8", xml_declaration=True)
