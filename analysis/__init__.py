"""Analysis of measurements: published and local numbers in one tidy table, and the results from it."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TypeVar

from common.installed import require

require("pandas")

PUBLISHED = Path(__file__).parent / "published"  # the numbers that the reports print


_Item = TypeVar("_Item")
_Key = TypeVar("_Key")


class TableError(ValueError):
    """A table that cannot be trusted: names file, column and row, the given value and the allowed ones."""


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Return items by a key, in their order."""
    groups: dict[_Key, list[_Item]] = {}
    for item in items:
        groups.setdefault(key(item), []).append(item)
    return groups
