"""Random changes of one value in the file of a record, with a valid checksum, as in a hostile file."""

from __future__ import annotations

import hashlib
import json
import random
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

Path = tuple[str | int, ...]
VALUES = (
    *(None, True, "", "x", "\x1b[31mred", "../../x", "2026-13-45T99:99", 0, -1, 1, 1.5, -1e308, 1e308, 10**12),
    *(2**63 - 1, 2**70, [], {}, [[]], [1, "a"], {"a": {}}),
)
_NO_CHECKSUM = "0" * 64


def signed(tree: dict[str, Any]) -> bytes:
    """Return the file of a record with these fields, valid or not, and their checksum."""
    text = json.dumps(tree | {"sha256": _NO_CHECKSUM}, separators=(",", ":")).encode()
    return text.replace(_NO_CHECKSUM.encode(), hashlib.sha256(text).hexdigest().encode())


def mutated(text: bytes, rng: random.Random) -> tuple[bytes, str]:
    """Return the file of a record with one value replaced, removed or doubled, and a description of the change.

    All fields of the record and all keys of its configuration are equally likely.
    """
    tree = json.loads(text)
    groups: dict[Path, list[Path]] = defaultdict(list)
    for path in _paths(tree):
        groups[path[:2] if path[0] == "config" else path[:1]].append(path)
    path = rng.choice(groups[rng.choice(sorted(groups))])
    parent: Any = tree
    for step in path[:-1]:
        parent = parent[step]
    value = rng.choice([*VALUES, "remove", "double"])
    if value == "remove":
        del parent[path[-1]]
    elif value == "double" and isinstance(parent[path[-1]], int | str | list):
        parent[path[-1]] = parent[path[-1]] * 2
    else:
        parent[path[-1]] = value
    return signed(tree), f"{path}: {value!r}"


def _paths(node: Any, path: Path = ()) -> Iterator[Path]:
    """Yield the paths of all values; in a list, those in its first three items."""
    items = node.items() if isinstance(node, dict) else enumerate(node[:3]) if isinstance(node, list) else ()
    for key, inner in items:
        yield (*path, key)
        yield from _paths(inner, (*path, key))
