"""Files that others read while they are written: they find them whole, or not at all."""

from __future__ import annotations

from pathlib import Path


def write_whole(path: Path, content: bytes) -> None:
    """Write a file, in place of one that is there. Raises OSError."""
    writing = path.with_name(f".{path.name}.writing")
    writing.write_bytes(content)
    writing.replace(path)
