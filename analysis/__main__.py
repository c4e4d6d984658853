"""`python -m analysis COMMAND`: each command is a module with `declare(parser)` and `run(arguments) -> int`."""

import argparse
import importlib
import sys
from contextlib import redirect_stderr, redirect_stdout

from analysis import TableError
from analysis.text import Printable

# A module is imported when its command is called: a command starts in well under a second.
COMMANDS = {
    "list": ("analysis.commands.listing", "the figures: id, report, what it shows, published and local points"),
    "draw": ("analysis.commands.draw", "draw the figures: PDF, PNG, SVG and captions"),
    "summary": ("analysis.commands.summary", "what one local experiment measured, as a table"),
    "tables": (
        "analysis.commands.tables",
        "every derived number that the reports print, recomputed",
    ),
    "audit": ("analysis.commands.audit", "inconsistencies in the reports and in local records; the claims, judged"),
    "claims": ("analysis.commands.claims", "the claims of the reports: hypothesis, data, rule, verdict"),
    "compare": (
        "analysis.commands.compare",
        "local records beside the published numbers, or two sets of local records",
    ),
    "report": ("analysis.commands.report", "one HTML page with everything; it needs no network"),
    "bundle": ("analysis.commands.bundle", "records, figures and page in one archive, for an artifact reviewer"),
    "bundle-check": ("analysis.commands.bundle_check", "is an archive that bundle made whole, and who signed it"),
    "explain": ("analysis.commands.explain", "split wall times into a fixed cost and a cost per step"),
    "diagnose": (
        "analysis.commands.diagnose",
        "where the time of a step goes, the largest loss, and what to try first",
    ),
    "history": ("analysis.commands.history", "the points of an experiment over time: as before, slower or faster"),
    "reference": ("analysis.commands.reference", "write what this machine measures into a file that a site keeps"),
    "check-reference": ("analysis.commands.check_reference", "the newest launches beside such a file"),
    "tune": ("analysis.commands.tune", "rank the arms of a contest, as those of make tune; write the fastest"),
    "timeline": (
        "analysis.commands.timeline",
        "what happened within a step, on all ranks: a table, a file for Perfetto",
    ),
    "table": ("analysis.commands.table", "a table of yours as audit, explain and predict read it; written as CSV"),
    "predict": ("analysis.commands.predict", "what more ranks would give, with an interval"),
}


def main(argv: list[str]) -> int:
    """Run the command that `argv` names; returns the exit status. Exits with status 2 where there is none such.

    What it prints holds text of records and tables: no control character of it reaches the terminal.
    """
    with redirect_stdout(Printable(sys.stdout)), redirect_stderr(Printable(sys.stderr)):  # type: ignore[type-var]
        return _run(argv)


def _run(argv: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m analysis", description="What the measurements showed.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    chosen = next((word for word in argv if not word.startswith("-")), None)
    for name, (module, text) in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == chosen:
            importlib.import_module(module).declare(command)
    arguments = parser.parse_args(argv)
    try:
        return importlib.import_module(COMMANDS[arguments.command][0]).run(arguments)
    except TableError as error:
        problem = str(error)
    except OSError as error:
        if error.filename is None:
            raise
        problem = f"{error.filename}: {error.strerror}"
    print(f"{parser.prog} {arguments.command}: {problem}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
