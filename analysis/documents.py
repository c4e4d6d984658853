"""Shared by outputs: the base of JSON objects, a number with its interval, Markdown, CSV.

The types of the documents are next to the code that fills them; `commands/output_schema.py` writes their schema.
"""

import math
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import msgspec
import pandas as pd
from msgspec import UNSET, Meta, UnsetType

from analysis import stats


def about(text: str) -> Meta:
    """Return the description of a field for the schema."""
    return Meta(description=text)


# The probability of a verdict by chance.
PValue = Annotated[float | None, about("p value, Holm-corrected; null: not judged")]


class Document(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An object of a JSON document."""


class NumberInJson(Document):
    """A number with its interval."""

    value: float | None
    low: Annotated[float | None, about("lower end of its interval; null: none")]
    high: Annotated[float | None, about("upper end")]
    level: Annotated[float | None, about("0.95 measured, 0.9 predicted, 1 rounded; null: none")]
    n: Annotated[int, about("number of rounds, launches, runs or points")]
    variation: Annotated[stats.Variation, about("that its interval allows for; empty: there is none")]
    another: Annotated[list[float] | UnsetType, about("range in which another launch is expected")] = UNSET


if TYPE_CHECKING:
    NumberField = stats.Number  # in a document
else:
    NumberField = NumberInJson  # in its JSON text

D = TypeVar("D", bound=Document)


def filled(kind: type[D], source: object, **others: Any) -> D:
    """Return a document of a kind, with the attributes of `source` that have the names of its fields, and others."""
    return kind(**{name: getattr(source, name) for name in kind.__struct_fields__ if name not in others}, **others)


def optional(number: stats.Number | None) -> stats.Number | None:
    """Return a number; None if it is not known."""
    return None if number is None or math.isnan(number.value) else number


def _number(number: stats.Number) -> NumberInJson:
    level, variation = (number.level, number.variation) if number.has_interval else (None, "")
    another = [*number.another(stats.LEVEL)] if number.another and number.level == stats.LEVEL else UNSET
    return filled(NumberInJson, number, level=level, variation=variation, another=another)


def _with_intervals(value: Any) -> Any:
    """Return a document, or a part of one, in which each number has its interval."""
    if isinstance(value, stats.Number):
        return _number(value)
    if isinstance(value, Document):
        return type(value)(**{name: _with_intervals(getattr(value, name)) for name in value.__struct_fields__})
    if isinstance(value, Mapping):
        return {key: _with_intervals(element) for key, element in value.items()}
    return [_with_intervals(element) for element in value] if isinstance(value, list | tuple) else value


def text(document: object) -> str:
    """Return a document as JSON text; null for values that are not known or not finite."""
    return msgspec.json.format(msgspec.json.encode(_with_intervals(document), enc_hook=_plain), indent=1).decode()


def _plain(value: Any) -> Any:
    """Return Python's number for one of NumPy; None for a missing value of pandas."""
    return value.item() if hasattr(value, "item") else None


_FORMULA = re.compile(r"[=+\-@\t\r]")  # the first character of what a spreadsheet computes


def tally(values: Sequence[str], names: Sequence[str]) -> str:
    """Return how often each of these names is among the values: "1 serious, 0 notes"."""
    return ", ".join(f"{values.count(name)} {name}" for name in names)


def markdown_table(rows: Sequence[Mapping[str, str]]) -> str:
    """Return rows as a Markdown table, one space around each cell: a wide cell does not widen all others."""
    cells = [[" ".join(cell.split()).replace("|", "\\|") for cell in row.values()] for row in rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in [[*rows[0]], ["---"] * len(rows[0]), *cells])


def csv_text(rows: pd.DataFrame, **options: Any) -> str:
    """Return the rows as CSV with a header, with ' before each text that a spreadsheet would take for a formula."""
    texts = rows.select_dtypes(["object", "str"]).columns
    cells = rows.assign(**{name: rows[name].map(_cell) for name in texts})
    return cells.to_csv(index=False, lineterminator="\n", **options)


def _cell(value: object) -> object:
    if not isinstance(value, str) or not _FORMULA.match(value):
        return value
    try:
        float(value)
    except ValueError:
        return f"'{value}"
    return value
