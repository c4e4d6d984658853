"""Ranks that are threads of this process."""

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor


class ThreadRank:
    """One of them, with what probing needs of a distribution."""

    def __init__(self, rank: int, size: int, table: dict, meet: threading.Barrier):
        self.rank, self.size, self._table, self._meet = rank, size, table, meet

    def gather(self, value, kind):
        """The values of all ranks."""
        self._table[self.rank] = value
        self._meet.wait()
        everyone = [self._table[rank] for rank in range(self.size)]
        self._meet.wait()
        return everyone

    def barrier(self):
        """Return when all ranks have called it."""
        self._meet.wait()


def on_all_ranks(size: int, work: Callable[[ThreadRank], object]) -> list:
    """What `work` returns on each rank."""
    table: dict = {}
    meet = threading.Barrier(size, timeout=240)
    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(work, [ThreadRank(rank, size, table, meet) for rank in range(size)]))
