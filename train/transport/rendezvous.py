"""Files in a folder that all hosts of a job see: the secret of the job, and the addresses that ranks exchange."""

from __future__ import annotations

import secrets
import shutil
import time
from dataclasses import dataclass
from pathlib import Path

from train.config.checks import ConfigError
from train.record import files

# Ranks wait this long for those that are still importing TensorFlow: on shared cores that takes minutes.
IMPORT_WITHIN_S = 300
_POLL_S = 0.1
_SECRET_BYTES = 32


def write_file(path: Path, text: str) -> None:
    """Write a file for the other ranks, which other users cannot read. Raises OSError."""
    files.write_whole(path, text.encode(), mode=0o600)


def wait_for_file(path: Path, hint: str) -> str:
    """Return the content of a file that rank 0 writes, once it is there.

    hint: what may be wrong if the file does not appear, and what to do.
    Raises ConfigError if rank 0 does not write it within IMPORT_WITHIN_S.
    """
    end = time.monotonic() + IMPORT_WITHIN_S
    while not path.exists():
        if time.monotonic() > end:
            raise ConfigError(f"{path}: rank 0 did not write this within {IMPORT_WITHIN_S} s: {hint}")
        time.sleep(_POLL_S)
    return path.read_text()


@dataclass(frozen=True)
class Secret:
    """The secret of one job, by which its processes know each other, in a folder that only their user can read."""

    folder: Path

    @property
    def _path(self) -> Path:
        return self.folder / "secret"

    def create(self) -> None:
        """Draw the secret and write it. Raises OSError."""
        self.folder.mkdir(mode=0o700)
        write_file(self._path, secrets.token_hex(_SECRET_BYTES))

    def key(self) -> bytes:
        """Return the secret. Raises OSError."""
        return self._path.read_bytes()

    def wait(self, hint: str) -> bytes:
        """Return the secret once rank 0 has created it. Raises ConfigError, with the hint, if it does not."""
        return wait_for_file(self._path, hint).encode()

    def remove(self) -> None:
        """Remove the secret."""
        shutil.rmtree(self.folder, ignore_errors=True)
