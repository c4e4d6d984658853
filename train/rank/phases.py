"""The phases of a job, on one rank: contiguous, so that they add up to its wall time."""

import time
from collections.abc import Callable, Mapping

from record.schema import Phase

Listener = Callable[[Phase, Mapping[str, float]], None]


def steady_time() -> Callable[[], float]:
    """Return a monotonic clock of seconds since the epoch, whatever happens to the system's clock."""
    epoch = time.time() - time.perf_counter()
    return lambda: epoch + time.perf_counter()


class PhaseClock:
    """Books all time since the start of the job on one phase after another."""

    def __init__(
        self, started_at: float, listener: Listener | None = None, now: Callable[[], float] | None = None
    ) -> None:
        """Begin in the phase `start`, at the launch of the job. Times are seconds since the epoch.

        listener: is called with each phase that is entered and the seconds of the phases so far.
        """
        self.started_at = started_at
        self.seconds: dict[str, float] = {}
        self.phase: Phase = "start"
        self._listeners = [listener] if listener else []
        self._now = now or steady_time()
        self._since = started_at
        self._announced: Phase | None = None

    def listen(self, listener: Listener) -> None:
        """Add a listener, after those before it."""
        self._listeners.append(listener)

    def _tell(self, phase: Phase, seconds: Mapping[str, float]) -> None:
        for listener in self._listeners:
            listener(phase, seconds)

    def announce(self, phase: Phase) -> None:
        """Tell the listeners that `phase` comes next. `enter` then only reads the clock, and does not call them.

        Call it before the barrier that precedes a timed phase: listeners write files, which takes a different time on
        each rank.
        """
        self._tell(phase, self._so_far(self._now()))
        self._announced = phase

    def enter(self, phase: Phase, at: float | None = None) -> None:
        """Book the time so far on the current phase, and begin or continue `phase`: now, or at the epoch time `at`."""
        if phase == "timed" and self._announced != phase:
            self.announce(phase)  # listeners write nothing inside the timed window
        announced = self._announced == phase
        now = self._now() if at is None else at
        if now < self.started_at:  # the launcher's clock is another host's, or was set back since
            self.started_at = self._since = now
        self.seconds = self._so_far(now)
        self.phase, self._since, self._announced = phase, now, None
        if not announced:
            self._tell(phase, self.seconds)

    def elapsed_s(self) -> float:
        """Return seconds since the launch of the job."""
        return sum(self.seconds.values()) + self._now() - self._since

    def stop(self) -> dict[str, float]:
        """Return the seconds of all phases, with the time so far booked on the current one."""
        now = self._now()
        self.seconds, self._since = self._so_far(now), now
        return self.seconds

    def _so_far(self, now: float) -> dict[str, float]:
        return {**self.seconds, self.phase: self.seconds.get(self.phase, 0.0) + now - self._since}
