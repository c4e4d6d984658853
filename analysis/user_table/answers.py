"""What a user says of a table: COLUMNS=, the questions that it answers, and the file beside the table that keeps it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

import yaml

from analysis import TableError
from analysis.user_table import headers
from analysis.user_table.headers import Column, plain
from common import bounded_files as bounded

SUFFIX = ".columns.yaml"
_MOST = 24  # answers to one question
_BYTES = 1 << 16
_PART = re.compile(r"[,;](?=[^=]*=)")
_DIRECTIVES = {"decimal": (".", ","), "rows": ("repeats",), "scaling": ("weak", "strong")}


@dataclass(frozen=True)
class Choices:
    """What COLUMNS= says: names by header, by number, or by a pattern with "*"; and directives."""

    text: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    directives: Mapping[str, str] = field(default_factory=dict)
    used: set[str] = field(default_factory=set)  # names that matched a header

    def adding(self, answer: str) -> str:
        """Return the text of COLUMNS with one more answer, which replaces that to the same header."""
        parts = (part for text in (self.text, answer) for part in _PART.split(text) if part)
        return ",".join({part.rpartition("=")[0].strip(): part for part in parts}.values())

    def column(self, text: str, number: int) -> Column:
        """Return a column as the user names it, else as its header says."""
        column = headers.read_header(text, number)
        for pattern, name in sorted(self.names.items(), key=lambda item: "*" in item[0]):
            whole = re.escape(re.sub(r"\s+", " ", pattern)).replace(r"\*", "(.+)", 1)
            match = re.fullmatch(whole, re.sub(r"\s+", " ", text).strip(), re.I)
            if match or pattern == str(number):
                self.used.add(pattern)
                label = match[1].strip() if match and match.groups() else ""
                return replace(column.assigned(name, label=label), key=pattern if label else "")
        return column


class Question(TableError):
    """A table with several readings. answers: the text of COLUMNS for each; without one the table is refused."""

    def __init__(self, text: str, answers: Iterable[str] = ()) -> None:
        """Keep the text and the first answers."""
        self.text, self.answers = text, [*dict.fromkeys(answers)][:_MOST]
        super().__init__("\n".join([text, *(f'  COLUMNS="{answer}"' for answer in self.answers)]))


def offers(keys: Iterable[str], names: Sequence[str]) -> list[str]:
    """Return the settings that give columns of these keys these names: the first name of each key first."""
    keys = [*keys]
    return [f"{key}={name}" for name in names for key in keys]


def parse(text: str) -> Choices:
    """Return what COLUMNS= says, "Machine Num=nodes,Speed=images_per_s". Raises TableError for a name not allowed."""
    names: dict[str, str] = {}
    directives: dict[str, str] = {}
    if text.strip().isdigit():  # a terminal's width, which some shells export under this name
        return Choices()
    for part in _PART.split(text) if text else ():
        header, separator, value = (part_text.strip() for part_text in part.rpartition("="))
        key, name = plain(header), value.partition(" ")[0]
        allowed = headers.is_name(name)
        count = key == "ranks" and re.fullmatch(r"[1-9]\d{0,8}", value)
        if separator and (value in _DIRECTIVES.get(key, ()) or count or (key == "table" and not allowed)):
            directives[key] = value
        elif separator and header.strip("*") and allowed:
            names[header] = value
        else:
            raise TableError(
                f"COLUMNS: '{part.strip()}' given; allowed: HEADER=NAME, of {', '.join(sorted(headers.NAMES))}, "
                "unused, measured, or tokens_per_s and the like; a number or a pattern with * for HEADER; cells=NAME; "
                "ranks=NUMBER; decimal=. or ,; rows=repeats; scaling=weak or strong; table=TITLE"
            )
    return Choices(text.strip(), names, directives)


def beside(table: Path) -> Path:
    """Return the file that keeps what the columns of a table mean."""
    return table.with_name(table.name + SUFFIX)


def written(table: Path, columns: str) -> Path:
    """Write what the columns of a table mean beside it, and return that file."""
    parts = [part.rpartition("=") for part in _PART.split(columns)]
    names = {header.strip(): name.strip() for header, _, name in parts}
    content = {"sha256": hashlib.sha256(table.read_bytes()).hexdigest(), "columns": names}
    comment = f"# What the columns of {table.name} mean, as COLUMNS says it. Delete this file to be asked again.\n"
    beside(table).write_text(comment + yaml.safe_dump(content, allow_unicode=True, sort_keys=False))
    return beside(table)


def stored(table: Path, data: bytes) -> str:
    """Return the text of COLUMNS that is kept beside a table with these bytes; "" without one.

    Raises TableError if that file is not as `written` leaves it, or is of another content of the table.
    """
    path = beside(table)
    if not path.exists():
        return ""
    try:
        content = yaml.safe_load(bounded.read(path, _BYTES, links=False))
        digest, text = content["sha256"], ",".join(f"{header}={name}" for header, name in content["columns"].items())
    except (OSError, yaml.YAMLError, ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"cannot be read ({error}); allowed: keys sha256 and columns; delete it to be asked"
        raise TableError(f"{path}: {reason}") from error
    if digest != hashlib.sha256(data).hexdigest():
        reason = f"{table.name} has changed since its columns were named: check them, and give COLUMNS again"
        raise TableError(f"{path}: {reason}")
    return parse(text).text
