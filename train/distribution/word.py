"""A word that rank 0 leaves for the other ranks: a file in a folder that all of them see."""

from __future__ import annotations

import time
from pathlib import Path

from train.config.checks import ConfigError
from train.distribution.protocol import IMPORT_WITHIN_S
from train.record import files

_POLL_S = 0.1


def leave(path: Path, word: str) -> None:
    """Leave it for the others. Raises OSError."""
    files.write_whole(path, word.encode())


def wait(path: Path, hint: str) -> str:
    """The word, once it is there. hint: what may be wrong where it does not come, and what to do.

    Raises ConfigError where rank 0 does not leave it within IMPORT_WITHIN_S.
    """
    end = time.monotonic() + IMPORT_WITHIN_S
    while not path.exists():
        if time.monotonic() > end:
            raise ConfigError(f"{path}: rank 0 did not write this within {IMPORT_WITHIN_S} s: {hint}")
        time.sleep(_POLL_S)
    return path.read_text()
