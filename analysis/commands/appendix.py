"""`appendix`: write the artifact appendix from its data; FILE= takes over the minutes of an evaluation."""

import argparse
from pathlib import Path

import msgspec

from analysis import TableError
from analysis.appendix import contents
from analysis.page import appendix as page
from train.record import files


class _Measured(msgspec.Struct):
    """The part of an evaluation that says how long its commands took."""

    minutes: dict[str, contents.Minutes]


def declare_appendix(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--style", choices=page.STYLES, default="sc", help="of which conference (default: %(default)s)")
    parser.add_argument("--file", type=Path, help="evaluation.json, whose minutes are kept from now on")
    parser.add_argument("--out", type=Path, help="default: ARTIFACT.md; of other styles figures/appendix-STYLE.md")


def text(style: str = "sc", data: Path = contents.DATA, minutes: Path = contents.MINUTES) -> str:
    """Return the appendix in a style. Raises TableError where its data are wrong."""
    return page.appendix_text(contents.read(data, minutes), style)


def run_appendix(options: argparse.Namespace) -> int:
    """Write the appendix and say where it is; the exit status."""
    if options.file:
        _keep(options.file)
    out = options.out or Path("ARTIFACT.md" if options.style == "sc" else f"figures/appendix-{options.style}.md")
    out.parent.mkdir(parents=True, exist_ok=True)
    files.write_whole(out, text(options.style).encode())
    print(f"{out}: written from {contents.DATA.name} and {contents.MINUTES.name}")
    return 0


def _keep(file: Path) -> None:
    """Take over the minutes of an evaluation. Raises TableError if it cannot be read."""
    try:
        measured = msgspec.json.decode(file.read_bytes(), type=_Measured).minutes
    except msgspec.DecodeError as error:
        raise TableError(f"{file}: not a file that `make evaluate` wrote: {error}") from error
    minutes = contents.read_minutes(contents.MINUTES) | measured
    files.write_whole(contents.MINUTES, contents.minutes_text(minutes).encode())
