"""Ranks that are threads of this process."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class ThreadRank:
    """One rank, with the members of a distribution that probing uses."""

    def __init__(self, rank: int, size: int, values: dict, barrier: threading.Barrier):
        self.rank, self.size, self._values, self._barrier = rank, size, values, barrier

    def gather(self, value, kind):
        """Return the values of all ranks."""
        self._values[self.rank] = value
        self._barrier.wait()
        values = [self._values[rank] for rank in range(self.size)]
        self._barrier.wait()
        return values

    def barrier(self):
        """Return when all ranks have called it."""
        self._barrier.wait()


def on_all_ranks(size: int, work: Callable[[ThreadRank], object]) -> list:
    """Return the results of `work` on all ranks."""
    values: dict = {}
    barrier = threading.Barrier(size, timeout=240)
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, [ThreadRank(rank, size, values, barrier) for rank in range(size)]))
