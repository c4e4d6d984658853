"""How far the clocks of the hosts are apart: measured over plain TCP, as NTP does (RFC 5905, section 8).

A rank asks rank 0 for the time, often. The answer was given between the question and its arrival, so the offset of
rank 0's clock is its answer less the middle of the two, at most half of the round trip off. The quickest one counts.
"""

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from train.transport import connections
from train.transport.connections import Accepted
from train.transport.tcp_group import AllRanks, listeners

_QUESTIONS = 100
_TIME = struct.Struct("!d")


@dataclass(frozen=True)
class Offset:
    """How far rank 0's clock is ahead of another one, in seconds."""

    ahead_s: float
    error_s: float  # at most


def measure(ranks: AllRanks, key: Callable[[], bytes]) -> tuple[Offset | None, list[str]]:
    """Return the offset of rank 0's clock to this rank's, None if it could not be measured, and all ranks' problems.

    Every rank calls it. Ranks on rank 0's host have its clock. key: gives the secret of the job.
    """
    host = socket.gethostname()
    with listeners(ranks) as (listener, addresses):
        hosts = ranks.gather(host, str)
        remote = [rank for rank, other in enumerate(hosts) if other != hosts[0]]
        offset, problem = Offset(0.0, 0.0) if host == hosts[0] else None, ""
        try:
            if ranks.rank == 0:
                _answer(connections.accept(listener, key(), len(remote)))
            elif ranks.rank in remote:
                offset = _ask(connections.connect(addresses[0], key(), ranks.rank))
        except OSError as error:
            problem = f"rank {ranks.rank} on {host}: {error}"
        problems = [text for text in ranks.gather(problem, str) if text]
    return offset, problems


def _answer(accepted: Accepted) -> None:
    """Tell these ranks the time whenever they ask, one rank after the other. Raises OSError."""
    for _, connection in accepted:
        with connection:
            while connection.recv(1):
                connection.sendall(_TIME.pack(time.time()))


def _ask(connection: socket.socket) -> Offset:
    """Return how far the clock of the other end is ahead of this one. Raises OSError."""
    offsets = []
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(_QUESTIONS):
            asked_at = time.time()
            connection.sendall(b"?")
            answer = connection.recv(_TIME.size, socket.MSG_WAITALL)
            answered_at = time.time()
            if len(answer) < _TIME.size:
                raise ConnectionError("rank 0 closed the connection")
            [time_there] = _TIME.unpack(answer)
            offsets.append(Offset(time_there - (asked_at + answered_at) / 2, (answered_at - asked_at) / 2))
    return min(offsets, key=lambda offset: offset.error_s)
