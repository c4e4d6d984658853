"""What `--format json` prints: the base of its objects, a number with its interval, and the text.

The types of the documents are beside the code that fills them. `commands/schema.py` writes the schema and
docs/json.md from them.
"""

import math
from typing import Annotated, Any, TypeVar

import msgspec
from msgspec import UNSET, Meta, UnsetType

from analysis.stats import number as stats
from analysis.stats.number import Covers


def about(text: str) -> Meta:
    """Return the description of a field for the schema and docs/json.md."""
    return Meta(description=text)


# How likely a verdict is by chance.
PValue = Annotated[float | None, about("p value, Holm-corrected; null: not judged")]


class Document(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """An object of a JSON document."""


class Number(Document):
    """A number with its interval."""

    value: float | None
    low: Annotated[float | None, about("lower end of its interval; null: none")]
    high: Annotated[float | None, about("upper end")]
    level: Annotated[float | None, about("0.95 measured, 0.9 predicted, 1 rounded; null: none")]
    n: Annotated[int, about("number of rounds, launches, runs or points")]
    covers: Annotated[Covers, about("source of variation; empty: no interval")]
    another: Annotated[list[float] | UnsetType, about("range in which another launch is expected")] = UNSET


D = TypeVar("D", bound=Document)


def filled(kind: type[D], source: object, **others: Any) -> D:
    """Return a document of a kind, with the attributes of `source` that have the names of its fields, and others."""
    values = {name: getattr(source, name) for name in kind.__struct_fields__ if name not in others}
    numbers = {name: number(value) for name, value in values.items() if isinstance(value, stats.Number)}
    return kind(**values | numbers | others)


def number(measured: stats.Number) -> Number:
    """Return a number with its interval."""
    level, covers = (measured.level, measured.covers) if measured.has_interval else (None, "")
    another = UNSET if math.isnan(measured.another[0]) else [*measured.another]
    return filled(Number, measured, level=level, covers=covers, another=another)


def optional(measured: stats.Number | None) -> Number | None:
    """Return a number with its interval; None if it is not known."""
    return None if measured is None or math.isnan(measured.value) else number(measured)


def text(document: object) -> str:
    """Return a document as JSON text; null for what is not known or not finite."""
    return msgspec.json.format(msgspec.json.encode(document, enc_hook=_plain), indent=1).decode()


def _plain(value: Any) -> Any:
    """Return Python's number for one of NumPy; None for a missing value of pandas."""
    return value.item() if hasattr(value, "item") else None
