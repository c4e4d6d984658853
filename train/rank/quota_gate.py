"""How a rank gets the CPU quota that its steps are measured under, and gives it back.

Import, building and tracing run without a quota: only warm-up and timed steps are measured. Rank and launcher exchange
marker files in the run folder (train/record/protocol.py), which every launcher and container shares.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path

from train.record import protocol

_POLL_S = 0.01


@dataclass(frozen=True)
class QuotaGate:
    """The rank's side: it waits at the gate until all nodes are limited. Without a folder the gate is open."""

    folder: Path | None = None
    rank: int = 0

    def wait_for_quota(self) -> None:
        """Return when every rank has called this, and the launcher has limited all nodes to their quotas."""
        if self.folder:
            protocol.ready_path(self.folder, self.rank).touch()
            while not protocol.limited_path(self.folder).exists():
                time.sleep(_POLL_S)

    def release(self) -> None:
        """Tell the launcher that this rank measures no more."""
        if self.folder:
            protocol.measured_path(self.folder, self.rank).touch()
