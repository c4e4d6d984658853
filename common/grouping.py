"""Values by key, in the order in which they come."""

from collections.abc import Callable, Hashable, Iterable
from typing import TypeVar

_Item = TypeVar("_Item")
_Key = TypeVar("_Key", bound=Hashable)


def gathered(pairs: Iterable[tuple[_Key, _Item]]) -> dict[_Key, list[_Item]]:
    """Return the values of each key, from pairs of key and value."""
    values: dict[_Key, list[_Item]] = {}
    for key, value in pairs:
        values.setdefault(key, []).append(value)
    return values


def grouped(items: Iterable[_Item], key: Callable[[_Item], _Key]) -> dict[_Key, list[_Item]]:
    """Return items by a key."""
    return gathered((key(item), item) for item in items)
