"""The steps that are measured run under limits that the launcher sets: how a rank asks for them, and gives them back.

Import, building and tracing go ahead without: only warm-up and timed steps are measured. Rank and launcher leave each
other files in the run's folder, which every launcher and container already shares.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

_POLL_S = 0.01


@dataclass(frozen=True)
class Limits:
    """One rank's side. Without a folder there are no limits, and nothing is asked for."""

    folder: Path | None = None
    rank: int = 0

    def begin(self) -> None:
        """Return when every rank has called this, and the launcher has set the limits of all."""
        if self.folder:
            asks(self.folder, self.rank).touch()
            while not granted(self.folder).exists():
                time.sleep(_POLL_S)

    def end(self) -> None:
        """Tell the launcher that this rank measures no more."""
        if self.folder:
            done(self.folder, self.rank).touch()


NO_LIMITS = Limits()


def asks(folder: Path, rank: int) -> Path:
    """The file by which a rank says that it is ready to be limited."""
    return folder / f"rank-{rank}.ready"


def granted(folder: Path) -> Path:
    """The file by which the launcher says that all ranks are limited."""
    return folder / "limited"


def done(folder: Path, rank: int) -> Path:
    """The file by which a rank says that it has measured."""
    return folder / f"rank-{rank}.measured"
