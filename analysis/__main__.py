"""`python -m analysis COMMAND`: what the measurements showed."""

import argparse
import importlib
import os
import signal
import sys
from typing import NoReturn

from analysis import TableError
from common.printable import printable_output
from common.terminal import show

# A line of help on each. Its module in analysis/commands has `declare(parser)` and `run(options) -> int`, and is
# imported only when the command is called, so that commands start quickly.
COMMANDS = {
    "list": "the figures: id, report, what it shows, published and local points",
    "draw": "draw the figures: PDF, PNG, SVG and captions",
    "summary": "what one local experiment measured, as a table",
    "tables": "every derived number that the reports print, recomputed",
    "audit": "inconsistencies in the reports and in local records, or in a table of yours",
    "claims": "the claims of the reports: hypothesis, data, rule, verdict",
    "compare": "local records beside the published numbers, or two sets of local records",
    "report": "one HTML page with everything; it needs no network",
    "bundle": "records, figures and page in one archive, for an artifact reviewer",
    "bundle-check": "is an archive that bundle made whole, and who signed it",
    "proposal": "one or two pages for an application for compute time",
    "evaluate": "a reviewer's report on an archive: each claim reproduced or not",
    "explain": "split wall times into a fixed cost and a cost per step",
    "diagnose": "where the time of a step goes, the largest loss, and what to try first",
    "history": "the points of an experiment over time: alike, worse or better",
    "reference": "write what this machine measures into a file that a site keeps",
    "check-reference": "the newest launches beside such a file",
    "tune": "rank the arms of a contest, as those of make tune; write the fastest",
    "timeline": "what happened within a step, on all ranks: a table, a file for Perfetto",
    "table": "a table of yours as audit, explain and predict read it; written as CSV",
    "predict": "what more ranks would give, with an interval",
}


def module(command: str) -> str:
    """Return the name of the module of a command."""
    return f"analysis.commands.{command.replace('-', '_')}"


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are those of the commands."""

    def error(self, message: str) -> NoReturn:
        """Print what is wrong with the arguments, and exit with status 2."""
        show(f"error: {message}; {self.prog} --help shows what is allowed", file=sys.stderr)
        sys.exit(2)


@printable_output()  # escapes control characters in the text of records and tables
def main(argv: list[str]) -> int:
    """Run the command that `argv` names; returns the exit status. Exits with status 2 if there is no such command."""
    parser = _Parser(prog="python -m analysis", description="What the measurements showed.")
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="command")
    chosen = next((argument for argument in argv if not argument.startswith("-")), None)
    for name, text in COMMANDS.items():
        command = commands.add_parser(name, help=text, description=text[0].upper() + text[1:] + ".")
        if name == chosen:
            importlib.import_module(module(name)).declare(command)
    arguments = parser.parse_args(argv)
    try:
        status: int = importlib.import_module(module(arguments.command)).run(arguments)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the reader, such as `head`, needs no more
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 128 + signal.SIGPIPE
    except TableError as error:
        problem = str(error)
    except OSError as error:
        if error.filename is None:
            raise
        problem = f"{error.filename}: {error.strerror}"
    show(f"error: {problem}", file=sys.stderr)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
