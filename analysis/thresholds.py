"""The thresholds of all rules: numbers in thresholds.toml, each with its unit, the reason for it and its source."""

import functools
import tomllib
from dataclasses import dataclass, fields
from pathlib import Path

from analysis import TableError

THRESHOLDS = Path(__file__).with_name("thresholds.toml")


@dataclass(frozen=True)
class Threshold:
    """One number that rules compare with."""

    value: float
    unit: str
    reason: str
    source: str


def read(path: Path = THRESHOLDS) -> dict[str, Threshold]:
    """Return the thresholds in the TOML file `path`, by name.

    Raises TableError naming the file, and an entry that lacks a value, unit, reason or source.
    """
    try:
        entries = tomllib.loads(path.read_text())
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise TableError(f"{path}: not a readable TOML file: {error}") from error
    needed = {field.name for field in fields(Threshold)}
    for name, entry in entries.items():
        if not isinstance(entry, dict) or set(entry) != needed or not all(str(value) for value in entry.values()):
            raise TableError(f"{path}: [{name}] must have exactly {', '.join(sorted(needed))}, none of them empty")
    return {name: Threshold(**entry) for name, entry in entries.items()}


_read_once = functools.cache(read)


def limit(name: str) -> float:
    """Return the value of a threshold, in its unit."""
    return _read_once()[name].value
