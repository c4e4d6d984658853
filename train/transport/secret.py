"""The secret of a job, by which its processes know each other: a file that only its user can read."""

from __future__ import annotations

import secrets
import shutil
from dataclasses import dataclass
from pathlib import Path

from train.transport import rendezvous_file

_BYTES = 32


@dataclass(frozen=True)
class Secret:
    """The secret of one job, in a folder of its own that all hosts of the job see."""

    folder: Path

    @property
    def _path(self) -> Path:
        return self.folder / "secret"

    def create(self) -> None:
        """Draw the secret, and keep it where only this user can read it. Raises OSError."""
        self.folder.mkdir(mode=0o700)
        rendezvous_file.write(self._path, secrets.token_hex(_BYTES))

    def key(self) -> bytes:
        """Return the secret. Raises OSError."""
        return self._path.read_bytes()

    def wait(self, hint: str) -> bytes:
        """Return the secret once rank 0 has created it. Raises ConfigError, with the hint, where it does not."""
        return rendezvous_file.wait(self._path, hint).encode()

    def remove(self) -> None:
        """Remove the secret: no process needs it any more."""
        shutil.rmtree(self.folder, ignore_errors=True)
