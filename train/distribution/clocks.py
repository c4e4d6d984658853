"""How far the clocks of the hosts are apart: measured over plain TCP, as NTP does (RFC 5905, section 8).

A rank asks rank 0 for the time, often. The answer was given between the question and its arrival, so rank 0's clock is
ahead by its answer less the middle of the two, at most half of the round trip off. The quickest round trip counts.
"""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from dataclasses import dataclass

from train.distribution.protocol import Distribution
from train.transport import channel
from train.transport.channel import Accepted
from train.transport.tcp_group import listeners

_QUESTIONS = 100
_TIME = struct.Struct("!d")


@dataclass(frozen=True)
class Ahead:
    """How far rank 0's clock is ahead of another; in seconds."""

    by_s: float
    error_s: float  # at most


def of_first(distribution: Distribution, key: Callable[[], bytes]) -> tuple[Ahead | None, list[str]]:
    """How far rank 0's clock is ahead of this rank's, and what failed on any rank; None where it could not be measured.

    Every rank calls it. Ranks on rank 0's host have its clock. key: gives the secret of the job.
    """
    host = socket.gethostname()
    with listeners(distribution) as (listener, addresses):
        hosts = distribution.gather(host, str)
        elsewhere = [rank for rank, other in enumerate(hosts) if other != hosts[0]]
        found, problem = Ahead(0.0, 0.0) if host == hosts[0] else None, ""
        try:
            if distribution.rank == 0:
                _answer(channel.accept(listener, key(), len(elsewhere)))
            elif distribution.rank in elsewhere:
                found = _ask(channel.connect(addresses[0], key(), distribution.rank))
        except OSError as error:
            problem = f"rank {distribution.rank} on {host}: {error}"
        failed = [text for text in distribution.gather(problem, str) if text]
    return found, failed


def _answer(ranks: Accepted) -> None:
    """Tell these ranks the time whenever they ask, one rank after the other. Raises OSError."""
    for _, accepted in ranks:
        with accepted as connection:
            while connection.recv(1):
                connection.sendall(_TIME.pack(time.time()))


def _ask(connection: socket.socket) -> Ahead:
    """How far the clock of the other end is ahead of this one. Raises OSError."""
    found = []
    with connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for _ in range(_QUESTIONS):
            asked = time.time()
            connection.sendall(b"?")
            answer = connection.recv(_TIME.size, socket.MSG_WAITALL)
            came = time.time()
            if len(answer) < _TIME.size:
                raise ConnectionError("rank 0 closed the connection")
            found.append(Ahead(_TIME.unpack(answer)[0] - (asked + came) / 2, (came - asked) / 2))
    return min(found, key=lambda one: one.error_s)
