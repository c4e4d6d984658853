"""The placement of a rank: its number, cores, threads and network, decided before TensorFlow starts its threads."""

import contextlib
import os
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import psutil

from common import affinity
from common.grouping import gathered
from record import protocol
from train.config.run_config import RunConfig

# How each launcher tells a process its number on its host. Horovod's variable comes first.
LOCAL_RANK_VARIABLES = (
    "HOROVOD_LOCAL_RANK",
    "OMPI_COMM_WORLD_LOCAL_RANK",
    "MV2_COMM_WORLD_LOCAL_RANK",
    "MPI_LOCALRANKID",
    "SLURM_LOCALID",
)
_RANK_VARIABLES = ("HOROVOD_RANK", "OMPI_COMM_WORLD_RANK", "MV2_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID")
_SIZE_VARIABLES = ("HOROVOD_SIZE", "OMPI_COMM_WORLD_SIZE", "MV2_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS")
_LOCAL_SIZE_VARIABLES = (
    "HOROVOD_LOCAL_SIZE",
    "OMPI_COMM_WORLD_LOCAL_SIZE",
    "MV2_COMM_WORLD_LOCAL_SIZE",
    "MPI_LOCALNRANKS",
    "SLURM_STEP_TASKS_PER_NODE",  # as 4, or 2(x3), or 4,2
    "SLURM_NTASKS_PER_NODE",
)


def _first_integer(names: Sequence[str], otherwise: int, environment: Mapping[str, str] = os.environ) -> int:
    matches = (re.match(r"\d+", environment.get(name, "")) for name in names)
    return next((int(match[0]) for match in matches if match), otherwise)


def rank_of(environment: Mapping[str, str], otherwise: int) -> int:
    """Return the rank of a process with this environment; `otherwise` if no launcher set it."""
    return _first_integer(_RANK_VARIABLES, otherwise, environment)


def without_rank() -> dict[str, str]:
    """Return the environment of this process for a process that serves all ranks and is no rank."""
    return {name: value for name, value in os.environ.items() if name not in _RANK_VARIABLES}


def first_rank() -> int:
    """Return the first rank of this process's rank group, among all ranks of the job."""
    return int(os.environ.get(protocol.FIRST_RANK, 0))


def global_rank() -> int:
    """Return the rank of this process in the job, before Horovod can be asked; 0 if no launcher set it."""
    return first_rank() + rank_of(os.environ, 0)


def rank_group() -> int:
    """Return the index of the rank group of this process in the job."""
    return int(os.environ.get(protocol.RANK_GROUP, 0))


def local_rank() -> int:
    """Return the rank of this process on its host, before Horovod can be asked; 0 if no launcher set it."""
    return _first_integer(LOCAL_RANK_VARIABLES, 0)


def local_size() -> int:
    """Return how many ranks this host has, before Horovod can be asked; 1 if no launcher set it."""
    return _first_integer(_LOCAL_SIZE_VARIABLES, 1)


def size() -> int:
    """Return how many processes a launcher started with this one, before Horovod can be asked; 1 if none set it."""
    return _first_integer(_SIZE_VARIABLES, 1)


def share(cores: int, sharers: int) -> int:
    """Return the cores of each sharer, at least one: nodes of a machine, or ranks of a node."""
    return max(1, cores // sharers)


def cores_of_rank(
    available: Sequence[int], local_rank: int, ranks_per_node: int, cores_per_node: int, threads: int
) -> list[int]:
    """Return the cores of one rank: its share of its node's share of the host's `available` cores.

    If there are fewer cores than the ranks need, cores are assigned again from the first: see `shared`.
    """
    node, rank_of_node = divmod(local_rank, ranks_per_node)
    first = node * cores_per_node + rank_of_node * threads
    return sorted({available[(first + k) % len(available)] for k in range(threads)})


def cores_of_ranks(config: RunConfig, available: Sequence[int]) -> list[list[int]]:
    """Return the cores of each rank and each separate server of a run whose nodes share this machine.

    available: the cores that it has.
    """
    threads = config.threads_per_rank or 1
    shape = config.ranks_per_node, config.system.cores_per_node or threads * config.ranks_per_node, threads
    return [cores_of_rank(available, rank, *shape) for rank in range(config.ranks + config.distribution.server_nodes)]


def shared(cores_of_ranks: Sequence[Sequence[int]]) -> bool:
    """Return whether a core belongs to more than one of the ranks of one host."""
    all_cores = [core for cores in cores_of_ranks for core in cores]
    return len(all_cores) != len(set(all_cores))


def shared_on_a_host(ranks: Iterable[tuple[str, Sequence[int], int]]) -> bool:
    """Return whether ranks share a core of a host. ranks: host, cores and number of workers of each."""
    described = [*ranks]
    by_host = gathered((host, cores) for host, cores, _ in described)
    return any(len(cores) < workers for _, cores, workers in described) or any(map(shared, by_host.values()))


_bound: set[int] = set()  # the cores of this process; empty before it is bound


def bind(cores: Sequence[int]) -> None:
    """Bind this process, and every thread that it starts from now on, to `cores`; OpenMP gets as many threads."""
    affinity.bind(cores)
    _remember(cores)
    os.environ["OMP_NUM_THREADS"] = str(len(cores))


def move(cores: Sequence[int]) -> None:
    """Bind all threads of this process to `cores` from now on."""
    _remember(cores)
    for thread in Path("/proc/self/task").iterdir():
        with contextlib.suppress(ProcessLookupError):  # it has ended
            affinity.bind(cores, int(thread.name))


def _remember(cores: Sequence[int]) -> None:
    _bound.clear()
    _bound.update(cores)


def moved_to() -> list[int]:
    """Return the CPUs that this process may use now, if somebody else bound it to others than `bind` or `move` did.

    A user can (taskset), a batch system (another cpuset), and the kernel where a CPU is taken away.
    """
    cores = os.sched_getaffinity(os.getpid())  # of its first thread: libraries bind threads of their own
    return sorted(cores) if _bound and cores != _bound else []


def addresses() -> dict[str, str]:
    """Return the IPv4 addresses of this host, and the interface that has each."""
    return {
        address.address: name
        for name, interface in psutil.net_if_addrs().items()
        for address in interface
        if address.family == socket.AF_INET
    }


def address_towards(peers: Sequence[str]) -> str:
    """Return this host's address on the network to its peers, of which it may be one; loopback without peers.

    Raises OSError if a peer's name has no address.
    """
    interfaces, own_address = addresses(), "127.0.0.1"
    for peer in peers:
        address = socket.gethostbyname(peer)
        if address.startswith("127."):
            continue
        if address not in interfaces:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:  # sends nothing, only looks up the route
                probe.connect((address, 9))
                return probe.getsockname()[0]
        own_address = address
    return own_address


def interface_towards(peers: Sequence[str]) -> str:
    """Return the name of the interface with the address `address_towards(peers)`."""
    return addresses().get(address_towards(peers), "lo")
