"""The columns and quantities of the tidy table (tidy_columns.toml), one row for each number; checks of its cells."""

import difflib
import functools
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

import msgspec
import numpy as np
import pandas as pd

from analysis import TableError
from common.grouping import grouped
from common.terminal import counted

_DTYPE_NAMES = {"text": "str", "integer": "Int64", "number": "float64", "flag": "boolean"}
DTYPES = {kind: pd.api.types.pandas_dtype(name) for kind, name in _DTYPE_NAMES.items()}  # looked up once
_FLAGS = {True: True, False: False, "True": True, "False": False}


@dataclass(frozen=True)
class TidyColumn:
    """A column of a table: values from `minimum` on, and greater than `above`."""

    name: str
    kind: Literal["text", "integer", "number", "flag"]
    required: bool = True  # whether the column must exist
    blank: bool = True  # whether a cell may be empty: "" in text, <NA> or NaN in numbers
    minimum: float | None = None
    above: float | None = None
    allowed: tuple[str, ...] = ()

    @property
    def values(self) -> str:
        """Return the allowed values, for a message."""
        if self.kind in ("text", "flag"):
            return "True, False" if self.kind == "flag" else ", ".join(self.allowed) or "any text"
        above = "" if self.above is None else f" above {self.above:g}"
        least = "" if self.minimum is None else f" of at least {self.minimum:g}"
        return f"{'whole ' * (self.kind == 'integer')}numbers{above}{least}"

    def converted(self, cells: pd.Series, empty: np.ndarray) -> tuple[pd.Series, np.ndarray]:
        """Return the cells in the type of the column, and which have a value that is not allowed in it."""
        dtype = DTYPES[self.kind]
        if self.kind == "text":
            pairs = zip(cells.to_numpy(object), empty, strict=True)
            texts = ["" if is_empty else str(cell) for cell, is_empty in pairs]
            wrong = [bool(self.allowed) and text not in (*self.allowed, "") for text in texts]
            return pd.Series(texts, cells.index, dtype), np.array(wrong, bool)
        if self.kind == "flag":
            flags = cells.astype(object).map(_FLAGS).astype(dtype)
            return flags, flags.isna().to_numpy() & ~empty
        numbers = pd.to_numeric(cells, errors="coerce").to_numpy(float, copy=True, na_value=np.nan)
        wrong = ~np.isfinite(numbers)
        numbers[wrong] = np.nan
        if self.kind == "integer":
            wrong |= numbers % 1 != 0
        if self.minimum is not None:
            wrong |= numbers < self.minimum
        if self.above is not None:
            wrong |= numbers <= self.above
        numbers[wrong] = np.nan
        return pd.Series(numbers, cells.index).astype(dtype), wrong & ~empty


@dataclass(frozen=True)
class Quantity:
    """A measured quantity: its unit, and the range of possible values."""

    unit: str
    zero: bool = False  # whether 0 is possible
    maximum: float = np.inf
    names: tuple[str, ...] = ()

    def possible(self, value: float) -> bool:
        """Return whether a measurement can have this value."""
        return 0 <= value <= self.maximum and (value != 0 or self.zero)


def _columns(part: str) -> tuple[TidyColumn, ...]:
    """Return the columns of a part of the schema; those of local records need not exist."""
    columns = [{"name": name, "required": part == "published", **column} for name, column in _SCHEMA[part].items()]
    return msgspec.convert(columns, tuple[TidyColumn, ...])


_SCHEMA = tomllib.loads(Path(__file__).with_name("tidy_columns.toml").read_text())
COLUMNS, LOCAL_COLUMNS = _columns("published"), _columns("local")  # only local records have the latter
REPORTS = next(column.allowed for column in COLUMNS if column.name == "report")
LOCAL_NAMES = tuple(column.name for column in COLUMNS + LOCAL_COLUMNS)  # of a table of local records
QUANTITIES = {name: entry for entry in msgspec.convert(_SCHEMA["quantity"], list[Quantity]) for name in entry.names}

# Units of numbers that are counted, not rounded, if they are printed to the last unit.
_COUNTED = ("count", "steps", "epochs", "images")


def half_unit(text: str, unit: str) -> float:
    """Return half a unit of the last printed digit: 0.05 for "7.2", 5e6 for "2.59e9"; 0 for counts, NaN for words.

    Digits are those of the text: "0.6760" has four decimals. A number in thousands or millions is written so: "460e3".
    """
    try:
        exponent = Decimal(text.strip()).as_tuple().exponent
    except InvalidOperation:
        return np.nan
    if not isinstance(exponent, int):  # of "nan", "inf"
        return np.nan
    return 0.0 if unit in _COUNTED and exponent == 0 else 0.5 * 10.0**exponent


@functools.cache
def quantity(name: str) -> Quantity | None:
    """Return the quantity called `name`, or None. Any `phase_<name>_s` is a time, 0 included."""
    if name.startswith("phase_") and name.endswith("_s"):
        return Quantity("s", zero=True)
    return QUANTITIES.get(name)


def _like(name: str, allowed: Iterable[str]) -> str:
    close = difflib.get_close_matches(name, list(allowed), n=1)
    return f"; did you mean '{close[0]}'?" if close else ""


def _name_columns(frame: pd.DataFrame, columns: Sequence[TidyColumn]) -> list[str]:
    names = [column.name for column in columns]
    unknown = [str(name) for name in frame.columns if name not in names]
    missing = [column.name for column in columns if column.required and column.name not in frame.columns]
    problems = [f"column '{name}' is missing" for name in missing]
    problems += [f"column '{name}' is not known{_like(name, names)} (allowed: {', '.join(names)})" for name in unknown]
    problems += [f"duplicate column '{name}'" for name in frame.columns[frame.columns.duplicated()].unique()]
    return problems


def _blank(cells: pd.Series) -> np.ndarray:
    absent = cells.isna().to_numpy()
    if pd.api.types.is_numeric_dtype(cells):
        return absent
    spaces = [isinstance(cell, str) and not cell.strip() for cell in cells.to_numpy(object)]
    return absent | np.array(spaces, bool)


def _raise(name: str, problems: list[str]) -> None:
    if problems:
        lines = problems[:20] + ([f"and {len(problems) - 20} more"] if len(problems) > 20 else [])
        raise TableError("\n".join([f"{name}: {counted(len(problems), 'problem')}", *lines]))


def conform(frame: pd.DataFrame, columns: Sequence[TidyColumn], name: str) -> pd.DataFrame:
    """Return `frame` with those of `columns` that it has, in their order and with their types; `name` is for errors.

    Text cells become str ("" if empty), integers Int64, numbers float64 (NaN if empty), flags boolean.
    Raises TableError listing every problem: a missing, unknown, misspelt or duplicate column; a cell that is not
    allowed in its column, or empty although a value is required.
    """
    _raise(name, _name_columns(frame, columns))
    problems: list[str] = []
    converted = {}
    for column in columns:
        if column.name not in frame.columns:
            continue
        cells = frame[column.name]
        empty = _blank(cells)
        converted[column.name], wrong = column.converted(cells, empty)
        wrong |= empty & (not column.blank)
        for i, cell in zip(np.flatnonzero(wrong), cells[wrong] if wrong.any() else (), strict=True):
            text = f"'{cell}'" if isinstance(cell, str) else cell
            problems.append(f"line {i + 2}: {column.name}: {text} given; allowed: {column.values}")
    _raise(name, problems)
    return pd.DataFrame(converted, index=frame.index)


def read_csv(path: Path) -> pd.DataFrame:
    """Return the CSV file `path`, checked against COLUMNS. Raises TableError naming the file and all problems."""
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False, skipinitialspace=True)
    except (OSError, UnicodeDecodeError, pd.errors.ParserError, pd.errors.EmptyDataError) as error:
        raise TableError(f"{path}: not a readable CSV file: {getattr(error, 'strerror', None) or error}") from error
    return conform(with_half_units(frame), COLUMNS, str(path))


def with_half_units(frame: pd.DataFrame) -> pd.DataFrame:
    """Return a table of text with the half units of its values, if it has values and units, and no half units."""
    if "half_unit" in frame or not {"value", "unit"} <= {*frame}:
        return frame
    return frame.assign(half_unit=[half_unit(*cells) for cells in zip(frame["value"], frame["unit"], strict=True)])


def check(table: pd.DataFrame, source: str = "table") -> pd.DataFrame:
    """Return the tidy `table` with its columns in order and of their types; the columns of local records are optional.

    Raises TableError naming each row whose quantity is unknown, whose unit is not that of the quantity, whose value is
    impossible, or which is a duplicate.
    """
    table = conform(table, COLUMNS + LOCAL_COLUMNS, source)
    problems = []
    cells = zip(*(table[name].tolist() for name in ("quantity", "unit", "value", "place", "report")), strict=True)
    for name, rows in grouped(cells, lambda row: row[0]).items():
        definition = quantity(name)
        if definition is None:
            problems.append(f"quantity '{name}' is not known{_like(name, QUANTITIES)}")
            continue
        may_be_own = definition.unit == "images/s"  # of a user's table, as tokens/s
        units = {unit for _, unit, _, _, report in rows if not (may_be_own and report == "" and "/" in unit)}
        if wrong := ", ".join(map(repr, sorted(units - {definition.unit}))):
            problems.append(f"{name}: unit {wrong} given, must be '{definition.unit}'")
        problems += [
            f"{location}: {name}: {value:g} {definition.unit} is impossible"
            for _, _, value, location, _ in rows
            if not definition.possible(value)
        ]
    key = [name for name in table.columns if name not in ("value", "note", "half_unit")]
    copies = table.loc[table.duplicated(key), ["place", "quantity", "model", "run"]]
    for location, name, model, run in copies.itertuples(index=False):
        problems.append(f"{location}: duplicate {name} of {model or run or 'it'}")
    _raise(source, problems)
    return table
