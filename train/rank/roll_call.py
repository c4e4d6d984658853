"""The roll call: before anything is timed, ranks report their hosts and software, and all of them check the reports.

A job whose ranks are on the wrong hosts, or run different configurations, code or packages, measures something else.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from common.grouping import gathered, grouped
from common.terminal import counted
from record import run_files as files
from record.recorded_config import flat
from record.schema import Host
from train.config.checks import ConfigError, listed
from train.config.run_config import RunConfig
from train.rank import host as machine

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
    other_conf: tuple[str, ...] = ()  # the launcher's files of conf/ that differ on this host, or are not there


@dataclass(frozen=True)
class Details:
    """The code of a rank or the launcher: exchanged only if hashes differ, to name the difference."""

    config: Mapping[str, Any]  # nested
    source: Mapping[str, str]  # file -> digest
    packages: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Expected:
    """The hosts and the launcher's code that the ranks must agree with."""

    hosts: int = 1  # the fewest that the ranks must be on; with more than one, the same number of ranks on each
    config_hash: str | None = None  # the launcher's; None without a launcher
    launcher: Details | None = None
    conf: Mapping[str, str] = field(default_factory=dict)  # file -> digest, of the launcher's conf/


def hosts_of_step(config: RunConfig, variables: Mapping[str, str]) -> int:
    """Return how many hosts ranks started by hand must be on: those of their Slurm step, at most the nodes; else 1."""
    return min(config.all_nodes, int(variables.get("SLURM_STEP_NUM_NODES", 1)))


def misplaced(present: Sequence[Present], config: RunConfig, hosts: int) -> list[str]:
    """Return the faults of the ranks' placement that change a measurement, with cause and fix; empty if there are none.

    hosts: the fewest that the ranks must be on.
    """
    by_host = grouped(present, lambda answer: answer.host.host)
    on_hosts = ((host, text) for host, ranks in by_host.items() for text in _shared_on(ranks, alone=hosts > 1))
    shared = machine.hosts_by_text(on_hosts)
    return [
        *_wrong_hosts(by_host, config, hosts),
        *(f"{names}: {text}" for text, names in shared.items()),
        *_different_mpi(present, config),
    ]


def _wrong_hosts(by_host: Mapping[str, Sequence[Present]], config: RunConfig, hosts: int) -> list[str]:
    each, nodes = config.ranks_per_node, config.all_nodes
    wrong = [f"{len(ranks)} on {host}" for host, ranks in by_host.items() if len(by_host) < hosts or len(ranks) != each]
    if hosts < 2 or not wrong:
        return []
    return [
        f"nodes={nodes} ranks_per_node={each}: each host must have {each} of the ranks; there are {listed(wrong)}. "
        f"Under Slurm: srun --nodes={nodes} --ntasks-per-node={each}, and not horovodrun without -H; with mpirun or "
        f"horovodrun: -H host1:{each},host2:{each}"
    ]


def _shared_on(ranks: Sequence[Present], alone: bool) -> Iterator[str]:
    """Yield the devices that ranks of a host share. alone: the host is one node, without shared cores."""
    gpus = [answer.gpu for answer in ranks if answer.gpu is not None]
    if len(set(gpus)) < len(gpus):
        yield (
            f"{len(gpus)} ranks share {counted(len(set(gpus)), 'GPU')}. Use at most as many "
            "ranks_per_node as it has GPUs; under Slurm request as many: --gpus-per-node"
        )
    cores = [core for answer in ranks for core in answer.cores]
    if alone and len(set(cores)) < len(cores):
        yield (
            f"its {len(ranks)} ranks need {len(cores)} cores and may use {len(set(cores))}. Under Slurm "
            f"request them: --cpus-per-task={len(ranks[0].cores)}; else set a smaller system.cores_per_node"
        )


def _different_mpi(present: Sequence[Present], config: RunConfig) -> list[str]:
    # A rank group without Horovod has loaded none.
    libraries = sorted({str(answer.mpi) for answer in present if answer.mpi or not config.launch.rank_groups})
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
    hashes, digests = {answer.config_hash for answer in present}, {answer.source_digest for answer in present}
    if expected.launcher:
        hashes.add(str(expected.config_hash))
        digests.add(files.source_digest(expected.launcher.source))
    return len(hashes) == len(digests) == 1 and all(answer.packages == present[0].packages for answer in present)


def differences(present: Sequence[Present], details: Sequence[Details], launcher: Details | None) -> list[str]:
    """Return the differences of configuration and source to the launcher or else rank 0, of packages to rank 0.

    details: of the ranks of `present`, in the same order.
    """
    first, reference = details[0], launcher or details[0]
    rank_0 = f"rank 0 ({present[0].host.host})"
    named = "the launcher" if launcher else rank_0

    def texts(own: Details) -> Iterator[str]:
        if keys := _changed(flat(reference.config), flat(own.config)):
            yield f"another configuration than {named}: {listed(keys)}"
        if changed := files.differing(reference.source, own.source):
            how = [f"{path} {_difference(path, reference.source, own.source)}" for path in changed]
            yield f"other files than {named}: {listed(how)}. All hosts and images need the same tree"
        if packages := _changed(first.packages, own.packages):
            yield f"other packages than {rank_0}: {listed(packages)}. Install the same ones on all hosts"

    ranks = [f"rank {answer.rank} ({answer.host.host})" for answer in present]
    alike = gathered((text, rank) for rank, own in zip(ranks, details, strict=True) for text in texts(own))
    return [f"{listed(having)}: {text}" for text, having in alike.items()]


def _difference(path: str, reference: Mapping[str, str], other: Mapping[str, str]) -> str:
    """Return how the copy of a file of another host differs."""
    return "is missing" if path not in other else "differs" if path in reference else "is only there"


def _changed(reference: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    return [
        f"{key}={other.get(key)} instead of {reference.get(key)}"
        for key in sorted({*reference, *other})
        if reference.get(key) != other.get(key)
    ]


def remarks(hosts: Sequence[Host], config: RunConfig) -> list[str]:
    """Return notes on the hosts for the record: different hardware, emulated precision."""
    flags_by_host = {host.host: host.state.cpu_flags for host in hosts if host.state and config.device == "cpu"}
    hardware_by_host = {host.host: machine.hardware(host.cores, host.cpu_model, host.gpus) for host in hosts}
    notes = (machine.hardware_note(hardware_by_host), machine.emulation_note(config.precision, flags_by_host))
    return [note for note in notes if note]


def other_conf(present: Sequence[Present]) -> list[str]:
    """Return a note for each set of files in which conf/ of hosts differs from the launcher's."""
    texts = {(answer.host.host, listed(answer.other_conf)) for answer in present if answer.other_conf}
    return [
        f"{hosts}: other files than the launcher: {names}. This run has the launcher's values; a command that starts "
        "there would take its own. Copy conf/ to all hosts"
        for names, hosts in machine.hosts_by_text(sorted(texts)).items()
    ]


def hold(answer: Present, details: Details, expected: Expected, config: RunConfig, gather: Gather) -> list[Present]:
    """Return the answers of all ranks, of which `answer` is this one's. Every rank calls this.

    Raises ConfigError, on every rank, if ranks are on the wrong hosts, or run other software than the launcher or each
    other.
    """
    present = gather(answer, Present)
    if not agreed(present, expected):
        differing = differences(present, gather(details, Details), expected.launcher)
        raise ConfigError("; ".join(differing) or "the ranks' configurations differ in their hashes alone")
    if problems := misplaced(present, config, expected.hosts):
        raise ConfigError("; ".join(problems))
    return present
