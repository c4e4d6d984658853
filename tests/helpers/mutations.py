"""Changes of one value in the file of a record, with a valid checksum, as in a hostile file."""

from __future__ import annotations

import hashlib
import itertools
import json
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]
REMOVED = "removed"
_VALUES = (
    *(None, True, "", "\x1b[31mred", "../../x", "2026-13-45T99:99", 0, -1, 1.5, -1e308, 1e308, 999_999, 10**12),
    *(2**63 - 1, 2**70, [], {}, [[]], [1, "a"], {"a": {}}, REMOVED),
)
_NO_CHECKSUM = "0" * 64


def signed(tree: dict[str, Any]) -> bytes:
    """Return the file of a record with these fields, valid or not, and their checksum."""
    text = json.dumps(tree | {"sha256": _NO_CHECKSUM}, separators=(",", ":")).encode()
    return text.replace(_NO_CHECKSUM.encode(), hashlib.sha256(text).hexdigest().encode())


def changed(text: bytes, each: int) -> Iterator[tuple[str, bytes]]:
    """Yield files of a record in which one value is replaced or removed, and a description: `each` for every value.

    Each file is another repeat. The replacements follow each other, so that neighbouring values get different ones.
    """
    tree, values = json.loads(text), itertools.cycle(_VALUES)
    for path in [*_paths(tree)]:
        for value in itertools.islice(values, each):
            tree["repeat"] += 1
            yield f"{path}: {value!r}", _changed(tree, path, value)


def _changed(tree: dict[str, Any], path: Path, value: Any) -> bytes:
    parent: Any = tree
    for step in path[:-1]:
        parent = parent[step]
    before = dict(parent) if isinstance(parent, dict) else [*parent]
    if value == REMOVED:
        del parent[path[-1]]
    else:
        parent[path[-1]] = value
    text = json.dumps(tree).encode() if path == ("sha256",) else signed(tree)
    parent.clear()
    parent.update(before) if isinstance(parent, dict) else parent.extend(before)
    return text


def _paths(node: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values; in a list, those in its first two items, of numbers in the first."""
    items = node.items() if isinstance(node, dict) else enumerate(node[:2]) if isinstance(node, list) else ()
    for key, inner in items:
        if key != 1 or isinstance(inner, dict):
            yield (*path, key)
            yield from _paths(inner, (*path, key))
