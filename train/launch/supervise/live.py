"""What a run in progress is doing, told now and then: from what its ranks have left in the run folder."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from pathlib import Path

from train.record import progress
from train.record.progress import Config, Follower, Seen

_READ_EVERY_S = 5.0  # reading takes time from the ranks that share the machine

Tell = Callable[[str], None]


def teller(folder: Path, config: Config, tell: Tell, every_s: float) -> Callable[[], None]:
    """A function to call while the job runs: every so many seconds it tells, in a line, how far the run has come."""
    follower, begin = Follower(folder), time.monotonic()
    seen: Seen | None = None
    read_at, told_at = begin - _READ_EVERY_S, begin

    def look() -> None:
        nonlocal seen, read_at, told_at
        now = time.monotonic()
        if now - told_at < every_s:
            return
        told_at = now
        if now - read_at >= _READ_EVERY_S:
            read_at = now
            with contextlib.suppress(OSError):  # a shared folder may be away for a while: the run goes on
                seen = progress.look(follower, config)
        tell(progress.words(seen, time.time()) if seen else f"starting for {progress.duration(now - begin)}")

    return look
