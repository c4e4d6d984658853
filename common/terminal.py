"""What commands print: paragraphs and tables, no wider than the terminal."""

from __future__ import annotations  # train/tools/doctor.py also runs under an older Python, and says so

import os
import re
import shutil
import textwrap
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, TextIO

if TYPE_CHECKING:
    import pandas as pd

_PROSE_CHARACTERS = 100  # longer lines are hard to read
_CELL_CHARACTERS = (34, 25)  # a number with its interval and share has up to 25
# A command, to be copied, and the mark of what another program printed.
_AS_IS = re.compile(r'\s*(\d+  )?(make |sudo |COLUMNS="|\S*/python\S* -m |\| )')
_BACKTICKS = re.compile("`[^`]+`")


def counted(number: float, noun: str) -> str:
    """Return a number with its noun: "1 rank", "2 launches"."""
    plural = "" if number == 1 else "es" if noun.endswith("ch") else "s"
    return f"{number:g} {noun}{plural}"


def columns() -> int:
    """Return the columns of the terminal, or what COLUMNS says; without either, as in a file, 100."""
    return max(40, shutil.get_terminal_size((_PROSE_CHARACTERS, 24)).columns)


def paragraph(text: str, indent: str = "", hanging: str = "") -> str:
    """Return a text wrapped at words, its first line indented by `indent` and the others by `hanging` after that.

    A path, and a command between backticks, stay whole, to be copied.
    """
    text = _BACKTICKS.sub(lambda command: command[0].replace(" ", "\0"), text)
    wrapped = textwrap.fill(
        text,
        columns() if os.environ.get("COLUMNS", "").isdigit() else min(columns(), _PROSE_CHARACTERS),
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return wrapped.replace("\0", " ")


def prose(text: str, hanging: str = "  ") -> str:
    """Return a text with each of its lines as a paragraph, but for commands and what another program printed."""
    return "\n".join(line if _AS_IS.match(line) else _hanging(line, hanging) for line in text.split("\n"))


def _hanging(line: str, hanging: str) -> str:
    """Return a line as a paragraph that keeps its indentation."""
    words = line.lstrip()
    return paragraph(words, line[: len(line) - len(words)], hanging)


def show(*texts: str, hanging: str = "  ", file: TextIO | None = None) -> None:
    """Print texts at once, wrapped as `prose` does. file: standard output, if it is not given."""
    for text in texts:
        print(prose(text, hanging), file=file, flush=True)


def text_table(rows: pd.DataFrame | Sequence[Mapping[str, object]], align: str = "left") -> str:
    """Return rows as a table of text, in blocks one below the other if it is wider than the terminal.

    Each block begins with the columns that tell the rows apart: the first one, and those after it that are needed.
    Texts are wrapped within their cells, more narrowly if fewer blocks are enough then.
    """
    import pandas as pd  # slow to import; neither is there before the set-up
    from tabulate import tabulate

    frame = pd.DataFrame(rows)
    tables = min((_blocks(frame, characters) for characters in _CELL_CHARACTERS), key=len)
    return "\n\n".join(tabulate(table, tablefmt="plain", disable_numparse=True, stralign=align) for table in tables)


def _blocks(rows: pd.DataFrame, characters: int) -> list[list[tuple[str, ...]]]:
    """Return the rows of each block, from the header on, with cells of at most so many characters a line."""
    texts = rows.map(lambda cell: _wrapped(str(cell), characters))
    lines = {name: [_wrapped(str(name), characters), "", *texts[name]] for name in texts}
    for cells in lines.values():
        cells[1] = "-" * max(len(line) for cell in cells for line in cell.split("\n"))
    keys = [*lines][:1]
    for name in [*lines][1:]:
        if len(texts[[*keys, name]].drop_duplicates()) > len(texts[keys].drop_duplicates()):
            keys.append(name)
    blocks: list[list] = [[]]
    for name in lines:
        width = sum(len(lines[shown][1]) + 2 for shown in [*blocks[-1], name]) - 2
        if width > columns() and len(blocks[-1]) > len(keys):
            blocks.append([*keys])
        blocks[-1] += [name] if name not in blocks[-1] else []
    return [[*zip(*(lines[name] for name in block), strict=True)] for block in blocks]


def _wrapped(text: str, characters: int) -> str:
    return "\n".join(textwrap.fill(line, characters, break_on_hyphens=False) for line in text.split("\n"))
