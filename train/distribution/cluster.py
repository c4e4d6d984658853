"""Where the workers of a strategy of TensorFlow are: each takes a port, all learn of all, and check that they answer.

It comes before TensorFlow is imported. Ranks tell each other their ports through the store of Horovod's launcher, which
also starts the ranks of a strategy (under Slurm rank 0 has that store). TF_CONFIG then holds the addresses of all
workers: the record keeps it. No wait is without a limit.
"""

from __future__ import annotations

import json
import os
import secrets
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection

from train.config.checks import ConfigError
from train.distribution import link
from train.distribution.meeting import Meeting
from train.rank import placement

_COME_WITHIN_S = 45.0  # the ranks: nothing slow, as TensorFlow's import, comes before
_ANSWER_WITHIN_S = 5.0  # the store
_POLL_S = 0.1
_SCOPE = "workers"  # of the store
_STORE = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")


@dataclass(frozen=True)
class Worker:
    """One worker, as it tells the others."""

    host: str
    address: str
    port: int
    token: str  # which those that connect must know

    @property
    def place(self) -> str:
        """Its address and port, as TensorFlow takes them."""
        return f"{self.address}:{self.port}"


@dataclass(frozen=True)
class Cluster:
    """All workers, and this one's connection to them beside TensorFlow's own."""

    workers: Sequence[Worker]  # by rank
    meeting: Meeting

    def config(self) -> str:
        """The value of TF_CONFIG on this rank."""
        workers = [worker.place for worker in self.workers]
        return json.dumps({"cluster": {"worker": workers}, "task": {"type": "worker", "index": self.meeting.rank}})

    def silent(self) -> str:
        """The workers whose ports do not answer, in words; "" where all do."""
        others = [number for number in range(len(self.workers)) if number != self.meeting.rank]
        return ", ".join(problem for number in others if (problem := _probe(number, self.workers[number])))


class Store:
    """Values that the ranks of a job leave for each other, with the launcher that started them."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        """variables: of the environment, which name the store. Raises ConfigError where they do not."""
        if any(name not in variables for name in _STORE):
            raise ConfigError(
                "distribution.backend=mwms: no launcher told this process of the other ranks; start them by "
                "`python -m train.launch` or make, by hand with horovodrun --gloo, or with srun"
            )
        self._url = "http://{}:{}".format(*(variables[name] for name in _STORE))
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def put(self, rank: int, worker: Worker) -> None:
        """Leave the worker of a rank. Raises OSError where the store does not answer."""
        data = json.dumps(asdict(worker)).encode()
        request = urllib.request.Request(f"{self._url}/{_SCOPE}/{rank}", data, method="PUT")
        self._open(request, timeout=_ANSWER_WITHIN_S).close()

    def get(self, rank: int) -> Worker | None:
        """The worker of a rank, once it is there. Raises OSError where the store does not answer."""
        try:
            with self._open(f"{self._url}/{_SCOPE}/{rank}", timeout=_ANSWER_WITHIN_S) as answer:
                return Worker(**json.load(answer))
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise


def meet(port: int | None, ranks: int) -> Cluster:
    """The workers of this job, all of which have answered each other.

    port: of the first rank of a host, None for free ones; ranks: how many there must be.
    Raises ConfigError where that is another number, a port is taken, or a rank does not come or does not answer.
    """
    rank, size = placement.global_rank(), int(os.environ.get("HOROVOD_SIZE", 1))
    if size != ranks:
        raise ConfigError(
            f"nodes x ranks_per_node={ranks}: this is process {rank} of {size}. "
            "Start as many processes as nodes x ranks_per_node, or change those"
        )
    store = Store(os.environ)
    with _listen(rank, port) as listener:
        own = Worker(socket.gethostname(), link.addresses()[0], listener.getsockname()[1], secrets.token_hex(16))
        try:
            store.put(rank, own)
            workers = _all(store, ranks)
        except OSError as error:
            raise ConfigError(f"rank {rank} ({own.host}): the launcher's store does not answer: {error}") from error
        cluster = Cluster(workers, Meeting(rank, ranks, _connections(rank, workers, listener)))
        cluster.meeting.barrier()  # all have answered: the port is TensorFlow's from now on
    return cluster


def _listen(rank: int, first: int | None) -> socket.socket:
    """A listener on this rank's port. Raises ConfigError where it is taken."""
    port = first + placement.local_rank() if first else 0
    try:
        return socket.create_server(("", port), backlog=1024)
    except OSError as error:
        raise ConfigError(
            f"distribution.port={first}: rank {rank} cannot have port {port} of {socket.gethostname()} "
            f"({error.strerror}); give another one, or null for free ones"
        ) from error


def _all(store: Store, ranks: int) -> list[Worker]:
    """The workers of all ranks. Raises ConfigError for those that do not come, OSError as the store does."""
    end = time.monotonic() + _COME_WITHIN_S
    found: dict[int, Worker] = {}
    while missing := [rank for rank in range(ranks) if rank not in found]:
        found |= {rank: worker for rank in missing if (worker := store.get(rank))}
        if len(found) < ranks and time.monotonic() > end:
            still = ", ".join(str(rank) for rank in missing if rank not in found)
            raise ConfigError(f"rank {still} did not come within {_COME_WITHIN_S:.0f} s: see its log and its host")
        time.sleep(_POLL_S if len(found) < ranks else 0)
    return [found[rank] for rank in range(ranks)]


def _connections(rank: int, workers: Sequence[Worker], listener: socket.socket) -> list[Connection]:
    """Connections for a meeting, when every other worker has answered. Raises ConfigError for one that does not."""
    for number, worker in enumerate(workers):
        if number != rank and (problem := _probe(number, worker)):
            raise ConfigError(f"rank {rank} ({workers[rank].host}) cannot reach {problem}: is there a firewall?")
    try:
        if rank:
            first = workers[0]
            return [_connection(link.connect([first.address], first.port, first.token.encode()))]
        return [_connection(link.accept(listener, workers[0].token.encode())) for _ in workers[1:]]
    except OSError as error:
        missed = f"rank 0 ({workers[0].host})" if rank else "a rank that had answered before"
        raise ConfigError(f"rank {rank} ({workers[rank].host}): {missed} does not answer: {error}") from error


def _probe(number: int, worker: Worker) -> str:
    """The worker of a rank in words where its port does not answer, else ""."""
    try:
        link.connect([worker.address], worker.port, b"").close()
    except OSError:
        return f"rank {number} ({worker.host}) at {worker.place}"
    return ""


def _connection(accepted: socket.socket) -> Connection:
    """A connection for whole objects, which waits without a limit: a rank that is gone closes it."""
    accepted.settimeout(None)
    return Connection(accepted.detach())
