"""The roll call: before anything is timed, ranks say where they are and what they run, and all of them check it.

A job whose ranks are in the wrong place, or run different configurations, code or packages, measures something else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from train.config import identity
from train.config.checks import ConfigError, listed
from train.config.schema import RunConfig
from train.rank import host as machine
from train.rank.host import folded, hosts_by_text
from train.record import files
from train.record.record import Host

Gather = Callable[[Any, Any], list[Any]]  # a value of this rank, its type -> those of all ranks, in the order of ranks


@dataclass(frozen=True)
class Present:
    """One rank's answer."""

    rank: int
    host: Host
    cores: tuple[int, ...]
    gpu: str | None  # identifies it among those of the host
    mpi: str | None  # the library that it has loaded
    config_hash: str
    source_digest: str
    packages: Mapping[str, str]  # name -> version


@dataclass(frozen=True)
class Details:
    """The code of a rank or the launcher: exchanged only if hashes differ, to name the difference."""

    config: Mapping[str, Any]  # nested
    source: Mapping[str, str]  # file -> digest
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Expected:
    """The hosts and the launcher's code that the ranks must agree with."""

    hosts: int = 1  # how many the ranks must be on, at least; with more than one, the same number of ranks on each
    config_hash: str | None = None  # the launcher's; None where there is none
    launcher: Details | None = None


def hosts_of_step(config: RunConfig, variables: Mapping[str, str]) -> int:
    """Return how many hosts ranks started by hand must be on: those of their Slurm step, at most the nodes; else 1."""
    return min(config.all_nodes, int(variables.get("SLURM_STEP_NUM_NODES", 1)))


def misplaced(present: Sequence[Present], config: RunConfig, hosts: int) -> list[str]:
    """Return the faults of the ranks' placement that change a measurement: cause and fix of each; none if all is well.

    hosts: how many the ranks must be on, at least.
    """
    on: dict[str, list[Present]] = {}
    for one in present:
        on.setdefault(one.host.host, []).append(one)
    return [
        *_wrong_hosts(on, config, hosts),
        *_shared_devices(on, alone=hosts > 1),
        *_different_mpi(present, config),
    ]


def _wrong_hosts(on: Mapping[str, Sequence[Present]], config: RunConfig, hosts: int) -> list[str]:
    if len(on) < hosts:
        return [
            f"nodes={config.all_nodes}: the {sum(map(len, on.values()))} ranks run on {len(on)} "
            f"host{'s' * (len(on) > 1)} ({folded(on)}). Under Slurm: srun --nodes={config.all_nodes} "
            f"--ntasks-per-node={config.ranks_per_node}, and not horovodrun without -H; with mpirun or horovodrun: "
            "-H host1:1,host2:1"
        ]
    uneven = [f"{host} {len(ranks)}" for host, ranks in on.items() if len(ranks) != config.ranks_per_node]
    if hosts > 1 and uneven:
        return [
            f"ranks_per_node={config.ranks_per_node}: other numbers of ranks are on {listed(uneven)}. "
            f"Under Slurm: srun --ntasks-per-node={config.ranks_per_node}"
        ]
    return []


def _shared_devices(on: Mapping[str, Sequence[Present]], alone: bool) -> list[str]:
    """Return what ranks share, each once with its hosts. alone: a host is one node, whose ranks share no cores."""
    shared = hosts_by_text((host, text) for host, ranks in on.items() for text in _shared_on(ranks, alone))
    return [f"{hosts}: {text}" for text, hosts in shared.items()]


def _shared_on(ranks: Sequence[Present], alone: bool) -> Iterator[str]:
    gpus = [one.gpu for one in ranks if one.gpu is not None]
    if len(set(gpus)) < len(gpus):
        yield (
            f"{len(gpus)} ranks share {len(set(gpus))} GPU{'s' * (len(set(gpus)) > 1)}. Use at most as many "
            "ranks_per_node as it has GPUs; under Slurm request as many: --gpus-per-node"
        )
    taken = [core for one in ranks for core in one.cores]
    if alone and len(set(taken)) < len(taken):
        yield (
            f"its {len(ranks)} ranks need {len(taken)} cores and may use {len(set(taken))}. Under Slurm "
            f"request them: --cpus-per-task={len(ranks[0].cores)}; else set a smaller system.cores_per_node"
        )


def _different_mpi(present: Sequence[Present], config: RunConfig) -> list[str]:
    # A rank group without Horovod has loaded none.
    libraries = sorted({str(one.mpi) for one in present if one.mpi or not config.launch.rank_groups})
    if len(libraries) < 2:
        return []
    return [
        f"the ranks have loaded different MPI libraries: {listed(libraries)}. Load the same module on all hosts, "
        "or bind the same one into the container (container.mpi_home)"
    ]


def agreed(present: Sequence[Present], expected: Expected) -> bool:
    """Return whether all ranks run one configuration, source and set of packages: the launcher's, if there is one.

    The launcher's packages do not count: ranks in a container have others.
    """
    hashes, digests = {one.config_hash for one in present}, {one.source_digest for one in present}
    if expected.launcher:
        hashes.add(str(expected.config_hash))
        digests.add(files.source_digest(expected.launcher.source))
    return len(hashes) == len(digests) == 1 and all(one.packages == present[0].packages for one in present)


def differences(present: Sequence[Present], details: Sequence[Details], launcher: Details | None) -> list[str]:
    """Return the differences of configuration and source to the launcher or else rank 0, of packages to rank 0.

    details: of the ranks of `present`, in the same order.
    """
    first, reference = details[0], launcher or details[0]
    rank_0 = f"rank 0 ({present[0].host.host})"
    named = "the launcher" if launcher else rank_0
    ranks_by_text: dict[str, list[str]] = {}  # a difference -> the ranks that have it
    for one, other in zip(present, details, strict=True):
        texts = []
        if keys := _changed(identity.flat(reference.config), identity.flat(other.config)):
            texts.append(f"another configuration than {named}: {listed(keys)}")
        if changed := files.differing(reference.source, other.source):
            texts.append(f"other files than {named}: {listed(changed)}. All hosts and images need the same tree")
        if packages := _changed(first.packages, other.packages):
            texts.append(f"other packages than {rank_0}: {listed(packages)}. Install the same ones on all hosts")
        for text in texts:
            ranks_by_text.setdefault(text, []).append(f"rank {one.rank} ({one.host.host})")
    return [f"{listed(ranks)}: {text}" for text, ranks in ranks_by_text.items()]


def _changed(reference: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [
        f"{key}={other.get(key)} instead of {reference.get(key)}"
        for key in sorted({*reference, *other})
        if reference.get(key) != other.get(key)
    ]


def remarks(hosts: Sequence[Host], config: RunConfig) -> list[str]:
    """Return notes for the record on the hosts: that they differ, that they emulate the precision."""
    flags_by_host = {one.host: one.state.cpu_flags for one in hosts if one.state and config.device == "cpu"}
    hardware_by_host = {one.host: machine.hardware(one.cores, one.cpu_model, one.gpus) for one in hosts}
    notes = (machine.hardware_note(hardware_by_host), machine.emulation_note(config.precision, flags_by_host))
    return [note for note in notes if note]


def hold(me: Present, details: Details, expected: Expected, config: RunConfig, gather: Gather) -> list[Present]:
    """Return the answers of all ranks, of which `me` is this one's. Every rank calls this.

    Raises ConfigError, on every rank, if ranks are in the wrong place, or run something else than the launcher or each
    other.
    """
    present = gather(me, Present)
    if not agreed(present, expected):
        differing = differences(present, gather(details, Details), expected.launcher)
        raise ConfigError("; ".join(differing) or "the ranks' configurations differ in their hashes alone")
    hosts = expected.hosts
    if config.distribution.elastic:  # training continues on fewer hosts
        hosts = min(hosts, len(present) // config.ranks_per_node)
    if problems := misplaced(present, config, hosts):
        raise ConfigError("; ".join(problems))
    return present
