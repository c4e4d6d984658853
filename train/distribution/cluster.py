"""The ranks of a strategy of TensorFlow before TensorFlow is imported: tasks, ports, addresses, timeouts.

Each rank takes a port for each of its tasks, gets the addresses of all others, and checks that they answer. Ranks
exchange addresses by files in the private folder of the job, which all hosts see. TF_CONFIG then holds the addresses
of all tasks: the record keeps it. Every wait has a time limit, whose error names the rank that did not come.
"""

import json
import os
import select
import signal
import socket
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

import msgspec

from record import protocol
from train.config.checks import ConfigError
from train.config.distribution_config import DistributionConfig as Settings
from train.rank import placement
from train.transport import PeerLost, RankUnresponsive, connections
from train.transport.rendezvous import IMPORT_WITHIN_S, Secret, write_file
from train.transport.tcp_group import OnWait, TcpGroup, connect_to_first, time_limit

WORKER, SERVER, COORDINATOR = "worker", "ps", "chief"  # as TensorFlow names the tasks

START_WITHIN_S = 300.0  # of all ranks: on some hosts their processes may start later than on others
READY_WITHIN_S = 300  # a strategy, once all have imported TensorFlow: then it takes a second, more on busy cores
_POLL_S = 0.1
_PROBES = 64  # tasks that are asked at the same time

Report = Callable[[str], None]  # is called with the reason if this process is ended because another rank hangs

_RENDEZVOUS = ("HOROVOD_GLOO_RENDEZVOUS_ADDR", "HOROVOD_GLOO_RENDEZVOUS_PORT")


@dataclass(frozen=True)
class Peer:
    """A rank as it announces itself to the others: its host, and the ports of its tasks."""

    host: str
    address: str
    ports: Mapping[str, int]  # task -> its port

    @property
    def first_task(self) -> str:
        """Return the worker, unless the rank only holds a server."""
        return next(iter(self.ports))

    def address_of(self, task: str) -> connections.Address:
        """Return the address of one of its tasks."""
        return connections.Address(self.address, self.ports[task])

    def endpoint(self, task: str) -> str:
        """Return the address of one of its tasks as TensorFlow takes it, "address:port"."""
        return f"{self.address}:{self.ports[task]}"


@dataclass(frozen=True)
class Cluster:
    """All ranks of a strategy, and this one's connection to them in addition to TensorFlow's own."""

    peers: Sequence[Peer]  # by rank
    group: TcpGroup

    def spec(self) -> dict[str, list[str]]:
        """Return task -> endpoints, by rank, as TensorFlow's ClusterSpec takes them."""
        tasks = dict.fromkeys(task for peer in self.peers for task in peer.ports)
        return {task: [peer.endpoint(task) for peer in self.peers if task in peer.ports] for task in tasks}

    def ranks_with(self, task: str) -> list[int]:
        """Return the ranks that have a task, by its index."""
        return [rank for rank, peer in enumerate(self.peers) if task in peer.ports]

    def config(self) -> str:
        """Return the value of TF_CONFIG on this rank."""
        task = self.peers[self.group.rank].first_task
        index = self.ranks_with(task).index(self.group.rank)
        return json.dumps({"cluster": self.spec(), "task": {"type": task, "index": index}})


def while_servers_answer(peers: Sequence[Peer]) -> OnWait:
    """Return a check that ends a wait if TensorFlow's servers of that rank no longer answer.

    Their threads answer whatever Python does in that process.
    """
    return lambda rank, waited_s: check_servers(peers, [rank])


def check_servers(peers: Sequence[Peer], ranks: Collection[int]) -> None:
    """Raise RankUnresponsive if one of TensorFlow's servers of these ranks does not answer."""
    if silent := _silent_tasks(peers, ranks, serving=True):
        raise RankUnresponsive(f"{silent} does not answer")


def _silent_tasks(peers: Sequence[Peer], ranks: Collection[int], serving: bool) -> str:
    """Return the tasks of these ranks that do not answer, as text; "" if all do. They are asked at the same time.

    serving: the gRPC server there has to send its first message. The kernel alone would accept a connection.
    """

    def answers(address: connections.Address) -> bool:
        try:
            with connections.open_connection(address) as connection:
                return not serving or bool(connection.recv(1))
        except OSError:
            return False

    tasks = [(rank, task) for rank in ranks for task in peers[rank].ports]
    with ThreadPoolExecutor(_PROBES) as threads:
        answered = threads.map(answers, (peers[rank].address_of(task) for rank, task in tasks))
        silent = [pair for pair, answer in zip(tasks, answered, strict=True) if not answer]
    return ", ".join(f"rank {rank} ({peers[rank].host}) at {peers[rank].endpoint(task)}" for rank, task in silent)


def rank_tasks(settings: Settings, rank: int, workers: int) -> tuple[str, ...]:
    """Return the tasks of a rank: the first ranks also hold the parameter servers, if any, and rank 0 the coordinator.

    Servers on separate nodes are ranks after the workers.
    """
    if not settings.asynchronous:
        return (WORKER,)
    if settings.server_nodes:
        return (SERVER,) if rank >= workers else (WORKER, *((COORDINATOR,) if rank == 0 else ()))
    return WORKER, *((SERVER,) if rank < settings.servers else ()), *((COORDINATOR,) if rank == 0 else ())


def connect(settings: Settings, workers: int, secret: Secret | None, folder: Path) -> Cluster:
    """Return the ranks of this job, once all of them have answered each other.

    workers: how many there must be, without the ranks that only hold a server.
    secret: of the job; None without a launcher: then rank 0 makes one in `folder`, which all hosts see.
    Raises ConfigError if there is another number of ranks, a port is taken, or a rank does not come or answer.
    """
    rank, size = placement.global_rank(), int(os.environ.get("HOROVOD_SIZE", 1))
    if size != (ranks := workers + settings.server_nodes):
        servers = f" + distribution.servers={settings.servers}" if settings.server_nodes else ""
        raise ConfigError(
            f"nodes x ranks_per_node={workers}{servers}: this is process {rank} of {size}. "
            f"Start as many processes as nodes x ranks_per_node{' and servers' if servers else ''}, or change those"
        )
    tasks = rank_tasks(settings, rank, workers)
    with ExitStack() as stack:
        secret = secret or stack.enter_context(shared_secret(folder, rank))
        key = secret.key()
        host = connections.bind_host(os.environ.get(protocol.PEERS, "").split(","))
        listeners = {task: stack.enter_context(sock) for task, sock in task_listeners(settings, tasks, host).items()}
        ports = {task: listener.getsockname()[1] for task, listener in listeners.items()}
        peer = Peer(socket.gethostname(), host, ports)
        write_file(secret.folder / f"rank-{rank}", msgspec.json.encode(peer).decode())
        peers = wait_for_peers(secret.folder, ranks)
        cluster = Cluster(peers, connect_group(rank, peers, listeners[peer.first_task], key))
        hosts = [peer.host for peer in peers]
        cluster.group.on_wait = time_limit(START_WITHIN_S, rank, hosts, "reach all others")
        cluster.group.barrier()  # all have answered: the ports are TensorFlow's from now on
    cluster.group.on_wait = time_limit(IMPORT_WITHIN_S, rank, hosts, "import TensorFlow")
    return cluster


@contextmanager
def shared_secret(folder: Path, rank: int) -> Iterator[Secret]:
    """Return a context with a secret that rank 0 makes in `folder` for a job without a launcher.

    Raises ConfigError without it, and in a process that is not a rank.
    """
    if any(name not in os.environ for name in _RENDEZVOUS):
        raise ConfigError(
            "distribution: no launcher told this process of the other ranks; start them by "
            "`python -m train.launch` or make, by hand with horovodrun --gloo, or with srun"
        )
    secret = Secret(folder / f".private-{':'.join(os.environ[name] for name in _RENDEZVOUS)}")
    if rank == 0:
        secret.remove()  # of a job that was killed
        folder.mkdir(parents=True, exist_ok=True)
        secret.create()
    try:
        secret.wait("the hosts do not share the folder, or rank 0 died; see its output, or give results=...")
        yield secret
    finally:
        if rank == 0:
            secret.remove()


def task_listeners(settings: Settings, tasks: Sequence[str], host: str) -> dict[str, socket.socket]:
    """Return a listener for each of these tasks of this rank. Raises ConfigError if a port is taken.

    No rank has more tasks than rank 0: each rank of a host has as many ports, one after the other.
    """
    rank, ports_per_rank = placement.global_rank(), len(rank_tasks(settings, 0, 1))
    first = settings.port and settings.port + placement.local_rank() * ports_per_rank
    listeners: dict[str, socket.socket] = {}
    for number, task in enumerate(tasks):
        port = first + number if first else 0
        try:
            listeners[task] = connections.listen(host, port)
        except OSError as error:
            raise ConfigError(
                f"distribution.port={settings.port}: rank {rank} cannot have port {port} of {socket.gethostname()} "
                f"({error.strerror}); give another one, or null for free ones"
            ) from error
    return listeners


def wait_for_peers(folder: Path, ranks: int) -> list[Peer]:
    """Return what each rank has announced in this folder. Raises ConfigError for ranks that do not come."""
    end = time.monotonic() + START_WITHIN_S
    while True:
        announced = {path.name for path in folder.glob("rank-*")}  # over NFS only a listing soon has new files
        if not (missing := [str(rank) for rank in range(ranks) if f"rank-{rank}" not in announced]):
            return [msgspec.json.decode((folder / f"rank-{n}").read_bytes(), type=Peer) for n in range(ranks)]
        if time.monotonic() > end:
            raise ConfigError(
                f"rank {', '.join(missing)} did not come within {START_WITHIN_S:.0f} s: see its log and its host"
            )
        time.sleep(_POLL_S)


def connect_group(rank: int, peers: Sequence[Peer], listener: socket.socket, key: bytes) -> TcpGroup:
    """Return all ranks over TCP, once every other rank has answered. Raises ConfigError for one that does not."""
    if silent := _silent_tasks(peers, {*range(len(peers))} - {rank}, serving=False):
        raise ConfigError(f"rank {rank} ({peers[rank].host}) cannot reach {silent}: is there a firewall?")
    try:
        return connect_to_first(rank, len(peers), listener, peers[0].address_of(peers[0].first_task), key)
    except (OSError, PeerLost) as error:
        missing = f"rank 0 ({peers[0].host})" if rank else "a rank that had answered before"
        raise ConfigError(f"rank {rank} ({peers[rank].host}): {missing} does not answer: {error}") from error


@contextmanager
def time_limited(cluster: Cluster, report: Report) -> Iterator[None]:
    """Return a context for making a strategy, which ends this process after a limit.

    TensorFlow waits for the other tasks without a limit, in a call during which no Python runs. So a child of this
    process watches it: after the limit the child reports in its place, and kills it.
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
        if not select.select([reading], [], [], READY_WITHIN_S)[0]:
            parent, why = os.getppid(), "all others answer"
            try:
                check_servers(cluster.peers, {*range(len(cluster.peers))} - {cluster.group.rank})
            except RankUnresponsive as error:
                why = str(error)
            report(f"TensorFlow did not make its strategy within {READY_WITHIN_S} s: {why}")
            os.kill(parent, signal.SIGKILL)
    finally:
        os._exit(0)
