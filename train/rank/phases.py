"""The phases of a job, on one rank: contiguous, so that they add up to its wall time."""

import sys
import time
from collections.abc import Callable

from train.record.record import PHASES


def steady_time() -> Callable[[], float]:
    """Seconds since the epoch that go on evenly, whatever happens to the system's clock from now on."""
    epoch = time.time() - time.perf_counter()
    return lambda: epoch + time.perf_counter()


class PhaseClock:
    """Books all time since the start of the job on one phase after another.

    Args:
        started_at: when the job was launched, seconds since the epoch. Everything up to the first `enter` is `start`.
        rank: named in the log line that each change of phase leaves.
    """

    def __init__(self, started_at: float, rank: str, now: Callable[[], float] | None = None) -> None:
        """Begin in the phase `start`, at the launch of the job."""
        self.seconds: dict[str, float] = {}
        self.phase = "start"
        self._rank = rank
        self._now = now or steady_time()
        self._since = started_at

    def enter(self, phase: str, at: float | None = None) -> None:
        """Book the time so far on the current phase and begin `phase`, now or at the epoch time `at`.

        A phase that is entered again goes on. Raises ValueError for a name that is not in record.PHASES.
        """
        if phase not in PHASES:
            raise ValueError(f"phase={phase}: allowed are {', '.join(PHASES)}")
        if phase == "timed":  # nothing is written inside the timed window
            self._log(phase)
        now = self._now() if at is None else at
        self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + now - self._since
        self.phase, self._since = phase, now
        if phase != "timed":
            self._log(phase)

    def _log(self, phase: str) -> None:
        print(f"[rank {self._rank}] phase {phase}", file=sys.stderr, flush=True)

    def elapsed_s(self) -> float:
        """Seconds since the launch of the job."""
        return sum(self.seconds.values()) + self._now() - self._since

    def stop(self) -> dict[str, float]:
        """Book the time so far on the current phase, and give the seconds of all phases."""
        self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + self._now() - self._since
        return self.seconds
