"""A file by which rank 0 tells the other ranks where they meet: in a folder that all of them see."""

from __future__ import annotations

import time
from pathlib import Path

from train.config.checks import ConfigError
from train.record import files

# So long ranks wait for those that are still importing TensorFlow: on shared cores it takes minutes.
IMPORT_WITHIN_S = 300
_POLL_S = 0.1


def write(path: Path, text: str) -> None:
    """Write the file for the other ranks; other users cannot read it. Raises OSError."""
    files.write_whole(path, text.encode(), mode=0o600)


def wait(path: Path, hint: str) -> str:
    """Return what the file holds, once it is there.

    hint: what may be wrong where it does not appear, and what to do.
    Raises ConfigError where rank 0 does not write it within IMPORT_WITHIN_S.
    """
    end = time.monotonic() + IMPORT_WITHIN_S
    while not path.exists():
        if time.monotonic() > end:
            raise ConfigError(f"{path}: rank 0 did not write this within {IMPORT_WITHIN_S} s: {hint}")
        time.sleep(_POLL_S)
    return path.read_text()
