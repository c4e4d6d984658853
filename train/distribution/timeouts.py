"""How long the ranks of a strategy of TensorFlow wait for each other. No wait is without an end that names the rank."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from concurrent.futures import ThreadPoolExecutor

from train.distribution import link
from train.distribution.tasks import Peer
from train.transport.failures import RankUnresponsive
from train.transport.tcp_group import OnWait

_AT_ONCE = 64  # tasks that are asked


def within(limit_s: float, rank: int, peers: Sequence[Peer], what: str) -> OnWait:
    """Wait so long for a rank, whatever it does; twice as long for rank 0, which may itself be waiting for another.

    rank: that waits. what: the others have to do before they come.
    """
    own_s = limit_s if rank == 0 else 2 * limit_s

    def check(other: int, waited_s: float) -> None:
        if waited_s > own_s:
            raise RankUnresponsive(f"rank {other} ({peers[other].host}) did not {what} within {own_s:.0f} s")

    return check


def while_answering(peers: Sequence[Peer]) -> OnWait:
    """Wait for as long as TensorFlow's servers of a rank answer: its threads do so whatever Python is doing there."""

    def check(other: int, waited_s: float) -> None:
        check_answers(peers, [other])

    return check


def check_answers(peers: Sequence[Peer], ranks: Collection[int]) -> None:
    """Ask TensorFlow's servers of these ranks, at the same time. Raises RankUnresponsive where one does not answer."""
    places = [(rank, task) for rank in ranks for task in peers[rank].ports]
    with ThreadPoolExecutor(_AT_ONCE) as threads:
        answers = list(threads.map(lambda of: link.answers(peers[of[0]].address_of(of[1])), places))
    silent = [
        f"rank {rank} ({peers[rank].host}) at {peers[rank].place(task)}"
        for (rank, task), answered in zip(places, answers, strict=True)
        if not answered
    ]
    if silent:
        raise RankUnresponsive(f"{', '.join(silent)} does not answer")
