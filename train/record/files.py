"""Files that others read while they are written: they find them whole, or not at all."""

from __future__ import annotations

import os
from pathlib import Path


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file, in place of one that is there. mode: its permissions, less the umask. Raises OSError."""
    writing = path.with_name(f".{path.name}.writing")
    writing.unlink(missing_ok=True)  # of a writer that was killed: it may have other permissions
    with os.fdopen(os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    writing.replace(path)
