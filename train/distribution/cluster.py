"""Where the tasks of a strategy of TensorFlow are: each takes a port, all learn of all, and check that they answer.

It comes before TensorFlow is imported. Ranks tell each other their ports through the store of Horovod's launcher, which
also starts the ranks of a strategy (under Slurm rank 0 has that store). TF_CONFIG then holds the addresses of all
tasks: the record keeps it. No wait is without a limit.
"""

from __future__ import annotations

import hmac
import json
import os
import select
import signal
import socket
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import msgspec

from train.config.checks import ConfigError
from train.config.schema import Distribution as Settings
from train.distribution import timeouts
from train.distribution.tasks import COORDINATOR, SERVER, WORKER, Peer
from train.rank import placement
from train.record import protocol
from train.transport import channel
from train.transport.failures import PeerLost, RankUnresponsive
from train.transport.rendezvous_file import IMPORT_WITHIN_S
from train.transport.secret import Secret
from train.transport.tcp_group import TcpGroup, group_of

_COME_WITHIN_S = 300.0  # the ranks: what starts their processes may take longer on one host than on another
_READY_WITHIN_S = 300  # a strategy, once all have imported TensorFlow: then it takes a second, more on busy cores
_ANSWER_WITHIN_S = 30.0  # the store
_POLL_S = 0.1
Report = Callable[[str], None]  # takes why this process was ended, where it cannot say so itself

_SCOPE = "workers"  # of the store
_MAC_BYTES = 32
_MAX_BYTES = 1 << 16  # of what a rank tells the others
_STORE = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")


@dataclass(frozen=True)
class Cluster:
    """All ranks of a strategy, and this one's connection to them beside TensorFlow's own."""

    peers: Sequence[Peer]  # by rank
    group: TcpGroup

    def places(self) -> dict[str, list[str]]:
        """Task -> where it is, by rank: what TensorFlow calls the specification of a cluster."""
        tasks = dict.fromkeys(task for peer in self.peers for task in peer.ports)
        return {task: [peer.place(task) for peer in self.peers if task in peer.ports] for task in tasks}

    def ranks_with(self, task: str) -> list[int]:
        """The ranks that have a task, by its index."""
        return [rank for rank, peer in enumerate(self.peers) if task in peer.ports]

    def config(self) -> str:
        """The value of TF_CONFIG on this rank."""
        task = self.peers[self.group.rank].first_task
        index = self.ranks_with(task).index(self.group.rank)
        return json.dumps({"cluster": self.places(), "task": {"type": task, "index": index}})


class Store:
    """Values that the ranks of a job leave for each other, with the launcher that started them.

    Anyone who can reach the store can write to it: what a rank leaves is signed with the secret of the job.
    """

    def __init__(self, variables: Mapping[str, str]) -> None:
        """variables: of the environment, which name the store. Raises ConfigError where they do not."""
        if any(name not in variables for name in _STORE):
            raise ConfigError(
                "distribution: no launcher told this process of the other ranks; start them by "
                "`python -m train.launch` or make, by hand with horovodrun --gloo, or with srun"
            )
        self.address = "{}:{}".format(*(variables[name] for name in _STORE))
        self._open = urllib.request.build_opener(urllib.request.ProxyHandler({})).open

    def put(self, rank: int, own: Peer, key: bytes) -> None:
        """Leave what this rank tells the others. Raises OSError where the store does not answer."""
        data = msgspec.json.encode(own)
        data = _signature(rank, data, key) + data
        request = urllib.request.Request(f"http://{self.address}/{_SCOPE}/{rank}", data, method="PUT")
        self._open(request, timeout=_ANSWER_WITHIN_S).close()

    def get(self, rank: int, key: bytes) -> Peer | None:
        """What a rank tells the others, once it is there. Raises OSError where the store does not answer.

        What somebody else left there does not count.
        """
        try:
            with self._open(f"http://{self.address}/{_SCOPE}/{rank}", timeout=_ANSWER_WITHIN_S) as answer:
                content = answer.read(_MAX_BYTES)
        except urllib.error.HTTPError as error:
            if error.code == 404:
                return None
            raise
        signature, data = content[:_MAC_BYTES], content[_MAC_BYTES:]
        genuine = hmac.compare_digest(signature, _signature(rank, data, key))
        return msgspec.json.decode(data, type=Peer) if genuine else None


def _signature(rank: int, data: bytes, key: bytes) -> bytes:
    return hmac.digest(key, b"%d %b" % (rank, data), "sha256")


def tasks_of(settings: Settings, rank: int, workers: int) -> tuple[str, ...]:
    """The tasks of a rank: the first ranks also hold the parameter servers, if any, and rank 0 their coordinator.

    Of servers on nodes of their own each is a rank after the workers.
    """
    if not settings.asynchronous:
        return (WORKER,)
    if settings.server_nodes:
        return (SERVER,) if rank >= workers else (WORKER, *((COORDINATOR,) if rank == 0 else ()))
    return WORKER, *((SERVER,) if rank < settings.servers else ()), *((COORDINATOR,) if rank == 0 else ())


def meet(settings: Settings, workers: int, secret: Secret | None, folder: Path) -> Cluster:
    """The ranks of this job, all of which have answered each other.

    workers: how many there must be, beside ranks that only hold a server.
    secret: of the job; None where no launcher made one: then rank 0 does, in `folder`, which all hosts see.
    Raises ConfigError where that is another number, a port is taken, or a rank does not come or does not answer.
    """
    rank, size = placement.global_rank(), int(os.environ.get("HOROVOD_SIZE", 1))
    if size != (ranks := workers + settings.server_nodes):
        servers = f" + distribution.servers={settings.servers}" if settings.server_nodes else ""
        raise ConfigError(
            f"nodes x ranks_per_node={workers}{servers}: this is process {rank} of {size}. "
            f"Start as many processes as nodes x ranks_per_node{' and servers' if servers else ''}, or change those"
        )
    store, tasks = Store(os.environ), tasks_of(settings, rank, workers)
    with ExitStack() as held:
        key = secret.key() if secret else held.enter_context(_own_secret(folder / f".private-{store.address}", rank))
        host = channel.bind_host(os.environ.get(protocol.PEERS, "").split(","))
        listeners = {task: held.enter_context(one) for task, one in _listeners(settings, tasks, host).items()}
        ports = {task: listener.getsockname()[1] for task, listener in listeners.items()}
        own = Peer(socket.gethostname(), host, ports)
        try:
            store.put(rank, own, key)
            everyone = _all(store, ranks, key)
        except OSError as error:
            raise ConfigError(f"rank {rank} ({own.host}): the launcher's store does not answer: {error}") from error
        cluster = Cluster(everyone, _group(rank, everyone, listeners[own.first_task], key))
        cluster.group.on_wait = timeouts.within(_COME_WITHIN_S, rank, everyone, "reach all others")
        cluster.group.barrier()  # all have answered: the ports are TensorFlow's from now on
    cluster.group.on_wait = timeouts.within(IMPORT_WITHIN_S, rank, everyone, "import TensorFlow")
    return cluster


@contextmanager
def _own_secret(folder: Path, rank: int) -> Iterator[bytes]:
    """A context with a secret that rank 0 makes for the ranks of a job without a launcher; they meet within it.

    Raises ConfigError where it does not appear.
    """
    secret = Secret(folder)
    if rank == 0:
        secret.remove()  # of a job that was killed
        folder.parent.mkdir(parents=True, exist_ok=True)
        secret.create()
    try:
        yield secret.wait("the hosts do not share the folder, or rank 0 died; see its output, or give results=...")
    finally:
        if rank == 0:
            secret.remove()


def _listeners(settings: Settings, tasks: Sequence[str], host: str) -> dict[str, socket.socket]:
    """A listener for each of these tasks of this rank. Raises ConfigError where a port is taken.

    No rank has more tasks than rank 0: so many ports are kept for each rank of a host, one after the other.
    """
    rank, kept = placement.global_rank(), len(tasks_of(settings, 0, 1))
    first = settings.port and settings.port + placement.local_rank() * kept
    found: dict[str, socket.socket] = {}
    for number, task in enumerate(tasks):
        port = first + number if first else 0
        try:
            found[task] = channel.listen(host, port)
        except OSError as error:
            raise ConfigError(
                f"distribution.port={settings.port}: rank {rank} cannot have port {port} of {socket.gethostname()} "
                f"({error.strerror}); give another one, or null for free ones"
            ) from error
    return found


def _all(store: Store, ranks: int, key: bytes) -> list[Peer]:
    """What each rank tells the others. Raises ConfigError for those that do not come, OSError as the store does."""
    end = time.monotonic() + _COME_WITHIN_S
    found: dict[int, Peer] = {}
    while missing := [rank for rank in range(ranks) if rank not in found]:
        found |= {rank: peer for rank in missing if (peer := store.get(rank, key))}
        if len(found) < ranks and time.monotonic() > end:
            still = ", ".join(str(rank) for rank in missing if rank not in found)
            raise ConfigError(f"rank {still} did not come within {_COME_WITHIN_S:.0f} s: see its log and its host")
        time.sleep(_POLL_S if len(found) < ranks else 0)
    return [found[rank] for rank in range(ranks)]


def _group(rank: int, peers: Sequence[Peer], listener: socket.socket, key: bytes) -> TcpGroup:
    """All ranks over TCP, when every other rank has answered. Raises ConfigError for one that does not."""
    for number, peer in enumerate(peers):
        if number != rank and (problem := _probe(number, peer)):
            raise ConfigError(f"rank {rank} ({peers[rank].host}) cannot reach {problem}: is there a firewall?")
    try:
        if rank:
            first = peers[0].address_of(peers[0].first_task)
            return group_of(rank, len(peers), [(0, channel.connect(first, key, rank))])
        return group_of(rank, len(peers), channel.accept(listener, key, len(peers) - 1))
    except (OSError, PeerLost) as error:
        missed = f"rank 0 ({peers[0].host})" if rank else "a rank that had answered before"
        raise ConfigError(f"rank {rank} ({peers[rank].host}): {missed} does not answer: {error}") from error


def _probe(number: int, peer: Peer) -> str:
    """A rank in words, with the port of it that does not answer; "" where all do."""
    for task in peer.ports:
        try:
            channel.open_connection(peer.address_of(task)).close()
        except OSError:
            return f"rank {number} ({peer.host}) at {peer.place(task)}"
    return ""


@contextmanager
def limited(cluster: Cluster, report: Report) -> Iterator[None]:
    """A context for making a strategy, which ends this process after a limit.

    TensorFlow waits for the other tasks without a limit, within a call that lets no Python run. So a child of this
    process watches: it reports, as this process would have, and kills it.
    """
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        os.close(writing)
        _watch(reading, cluster, report)
    os.close(reading)
    try:
        yield
    finally:
        os.close(writing)
        os.waitpid(child, 0)


def _watch(reading: int, cluster: Cluster, report: Report) -> NoReturn:
    """End the parent of this process, unless the other end of the pipe closes within the limit."""
    try:
        if not select.select([reading], [], [], _READY_WITHIN_S)[0]:
            parent, why = os.getppid(), "all others answer"
            try:
                timeouts.check_answers(cluster.peers, {*range(len(cluster.peers))} - {cluster.group.rank})
            except RankUnresponsive as error:
                why = str(error)
            report(f"TensorFlow did not make its strategy within {_READY_WITHIN_S} s: {why}")
            os.kill(parent, signal.SIGKILL)
    finally:
        os._exit(0)
