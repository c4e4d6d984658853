"""The thresholds of all rules: numbers in thresholds.toml, each with its unit, the reason for it and its source."""

import functools
from pathlib import Path
from typing import Annotated

import msgspec

from analysis import TableError

THRESHOLDS = Path(__file__).with_name("thresholds.toml")
_Text = Annotated[str, msgspec.Meta(min_length=1)]


class Threshold(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One number that rules compare with."""

    value: float
    unit: _Text
    reason: _Text
    source: _Text


def read_thresholds(path: Path = THRESHOLDS) -> dict[str, Threshold]:
    """Return the thresholds in the TOML file `path`, by name. Raises TableError naming the file and the fault."""
    try:
        return msgspec.toml.decode(path.read_bytes(), type=dict[str, Threshold])
    except (OSError, ValueError) as error:
        raise TableError(f"{path}: not a readable list of thresholds: {error}") from error


_read_once = functools.cache(read_thresholds)


def limit(name: str) -> float:
    """Return the value of a threshold, in its unit."""
    return _read_once()[name].value
