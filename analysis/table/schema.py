"""The columns and quantities of the tidy table (schema.toml), with one row for each number; the checks of its cells."""

import difflib
import functools
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from pathlib import Path
from typing import Literal

import numpy as np
import pandas as pd

from analysis import TableError
from analysis.documents import counted


@dataclass(frozen=True)
class Column:
    """A column of a table: values from `minimum` on, and greater than `above`."""

    name: str
    kind: Literal["text", "integer", "number", "flag"]
    required: bool = True  # whether the column must exist
    blank: bool = True  # whether a cell may be empty: "" in text, <NA> or NaN in numbers
    minimum: float | None = None
    above: float | None = None
    allowed: tuple[str, ...] = ()


def _columns(part: str) -> tuple[Column, ...]:
    allowed = {name: tuple(column.get("allowed", ())) for name, column in _SCHEMA[part].items()}
    return tuple(Column(name, **column | {"allowed": allowed[name]}) for name, column in _SCHEMA[part].items())


_SCHEMA = tomllib.loads(Path(__file__).with_name("schema.toml").read_text())
COLUMNS, LOCAL_COLUMNS = _columns("published"), _columns("local")  # only local records have the latter
REPORTS = next(column.allowed for column in COLUMNS if column.name == "report")
LOCAL_NAMES = tuple(column.name for column in COLUMNS + LOCAL_COLUMNS)  # of a table of local records


@dataclass(frozen=True)
class Quantity:
    """A measured quantity: its unit, and the range of possible values."""

    unit: str
    zero: bool = False  # whether 0 is possible
    maximum: float = np.inf

    def possible(self, value: float) -> bool:
        """Return whether a measurement can have this value."""
        return 0 <= value <= self.maximum and (value != 0 or self.zero)


QUANTITIES = {
    name: Quantity(entry["unit"], entry.get("zero", False), entry.get("maximum", np.inf))
    for entry in _SCHEMA["quantity"]
    for name in entry["names"]
}


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


def _row(cells: pd.Series | pd.DataFrame, position: int | np.integer) -> str:
    return f"line {position + 2}" if isinstance(cells.index, pd.RangeIndex) else f"row {cells.index[int(position)]}"


def _bad_cells(column: Column, cells: pd.Series, wrong: pd.Series, problem: str) -> list[str]:
    texts = [f"{cell:g}" if isinstance(cell, float) else f"'{cell}'" for cell in cells[wrong]]
    return [
        f"{_row(cells, i)}: {column.name}: {cell} {problem}"
        for i, cell in zip(np.flatnonzero(wrong), texts, strict=True)
    ]


def _name_columns(frame: pd.DataFrame, columns: Sequence[Column]) -> list[str]:
    names = [column.name for column in columns]
    unknown = [str(name) for name in frame.columns if name not in names]
    missing = [column.name for column in columns if column.required and column.name not in frame.columns]
    problems = [f"column '{name}' is missing" for name in missing]
    problems += [f"column '{name}' is not known{_like(name, names)} (allowed: {', '.join(names)})" for name in unknown]
    problems += [f"duplicate column '{name}'" for name in frame.columns[frame.columns.duplicated()].unique()]
    return problems


def _text(column: Column, cells: pd.Series, empty: pd.Series) -> tuple[pd.Series, list[str]]:
    cells = cells.fillna("").astype(str)
    if not column.allowed:
        return cells, []
    wrong = ~cells.isin([*column.allowed, ""])
    return cells, _bad_cells(column, cells, wrong, f"given, allowed: {', '.join(column.allowed)}")


def _blank(cells: pd.Series) -> pd.Series:
    if pd.api.types.is_numeric_dtype(cells):
        return cells.isna()
    spaces = [isinstance(cell, str) and not cell.strip() for cell in cells.to_numpy(object)]
    return cells.isna() | pd.Series(spaces, cells.index, bool)


def _allowed(column: Column) -> str:
    """Return the allowed values of a column of numbers, for a message."""
    above = "" if column.above is None else f" above {column.above:g}"
    least = "" if column.minimum is None else f" of at least {column.minimum:g}"
    return f"; allowed: {'whole ' * (column.kind == 'integer')}numbers{above}{least}"


def _number(column: Column, cells: pd.Series, empty: pd.Series) -> tuple[pd.Series, list[str]]:
    numbers = pd.to_numeric(cells.mask(empty), errors="coerce").astype(float)
    wrong, allowed = ~empty & ~np.isfinite(numbers), _allowed(column)
    problems = _bad_cells(column, cells, wrong, f"is not a number{allowed}")
    if column.kind == "integer":
        broken = numbers.notna() & (numbers % 1 != 0) & ~wrong
        problems += _bad_cells(column, cells, broken, f"is not a whole number{allowed}")
        numbers = numbers.mask(broken | wrong)
    if column.minimum is not None:
        problems += _bad_cells(column, numbers, numbers < column.minimum, f"given, must be at least {column.minimum:g}")
    if column.above is not None:
        problems += _bad_cells(column, numbers, numbers <= column.above, f"given, must be more than {column.above:g}")
    return numbers.astype("Int64") if column.kind == "integer" else numbers, problems


def _flag(column: Column, cells: pd.Series, empty: pd.Series) -> tuple[pd.Series, list[str]]:
    flags = cells.astype(object).map({True: True, False: False, "True": True, "False": False}).astype("boolean")
    return flags, _bad_cells(column, cells, flags.isna() & ~empty, "is not True or False")


_CONVERT = {"text": _text, "integer": _number, "number": _number, "flag": _flag}
# The cells of a column without any value.
_NOTHING = {"text": "", "integer": pd.NA, "number": np.nan, "flag": pd.NA}
DTYPES = {"text": "str", "integer": "Int64", "number": "float64", "flag": "boolean"}


def _raise(name: str, problems: list[str]) -> None:
    if problems:
        lines = problems[:20] + ([f"and {len(problems) - 20} more"] if len(problems) > 20 else [])
        raise TableError("\n".join([f"{name}: {counted(len(problems), 'problem')}", *lines]))


def conform(frame: pd.DataFrame, columns: Sequence[Column], name: str) -> pd.DataFrame:
    """Return `frame` with those of `columns` that it has, in their order and with their types; `name` is for errors.

    Text cells become str ("" if empty), integers Int64, numbers float64 (NaN if empty), flags boolean.
    Raises TableError listing every problem: a missing, unknown, misspelt or duplicate column; a cell that is not a
    number, not whole, out of range, not among the allowed words, or empty although a value is required.
    """
    _raise(name, _name_columns(frame, columns))
    problems: list[str] = []
    converted = {}
    for column in columns:
        if column.name not in frame.columns:
            continue
        empty = _blank(frame[column.name])
        if empty.all():
            converted[column.name] = pd.Series(_NOTHING[column.kind], frame.index, DTYPES[column.kind])
        else:
            converted[column.name], bad_cells = _CONVERT[column.kind](column, frame[column.name], empty)
            problems += bad_cells
        if not column.blank:
            problems += [f"{_row(frame, i)}: {column.name} is empty" for i in np.flatnonzero(empty)]
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
    extra = tuple(Column(**{**column.__dict__, "required": False}) for column in LOCAL_COLUMNS)
    table = conform(table, COLUMNS + extra, source)
    problems = []
    for name in table["quantity"].unique():
        rows = table[table["quantity"] == name]
        definition = quantity(name)
        if definition is None:
            problems.append(f"quantity '{name}' is not known{_like(str(name), QUANTITIES)}")
            continue
        own = rows["report"].eq("") & rows["unit"].str.contains("/") & (definition.unit == "images/s")  # as tokens/s
        units = sorted(set(rows.loc[~own, "unit"]) - {definition.unit})
        if units:
            problems.append(f"{name}: unit {', '.join(map(repr, units))} given, must be '{definition.unit}'")
        bad = rows[~rows["value"].map(definition.possible)]
        problems += [
            f"{location}: {name}: {value:g} {definition.unit} is impossible"
            for location, value in zip(bad["place"], bad["value"], strict=True)
        ]
    key = [name for name in table.columns if name not in ("value", "note", "half_unit")]
    for row in table[table.duplicated(key)].to_dict("records"):
        problems.append(f"{row['place']}: duplicate {row['quantity']} of {row['model'] or row['run'] or 'it'}")
    _raise(source, problems)
    return table
