"""Requests of a rank for the CPU quota of its measurement and the rate of its link, and their release.

Import, building and tracing run without a quota: only warm-up and timed steps are measured. Rank and launcher exchange
marker files in the run folder (record/protocol.py), which every launcher and container shares.
"""

import time
from dataclasses import dataclass
from pathlib import Path

from record import protocol

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

    def use_link(self, mbit_per_s: float | None) -> None:
        """Return when all links have this rate; None: no limit. Only rank 0 calls it, while all nodes are limited."""
        if not self.folder:
            return
        last = protocol.read_link_rate(protocol.link_wanted_path(self.folder))
        if last.number and last.mbit_per_s == mbit_per_s:
            return
        request = protocol.LinkRate(last.number + 1, mbit_per_s)
        protocol.write_link_rate(protocol.link_wanted_path(self.folder), request)
        while protocol.read_link_rate(protocol.link_set_path(self.folder)) != request:
            time.sleep(_POLL_S)

    def release(self) -> None:
        """Tell the launcher that this rank measures no more."""
        if self.folder:
            protocol.measured_path(self.folder, self.rank).touch()
