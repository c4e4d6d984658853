"""Checks before anything starts: memory, GPUs, shared cores, environment variables, data and weights.

Data and weights are checked in a process that loads TensorFlow.
"""

import importlib.util
import os
import re
import resource
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from common import affinity
from common.grouping import grouped
from record.this_kit import ROOT
from train.config import identity
from train.config.checks import ConfigError
from train.config.program import filled, search_path
from train.config.run_config import RunConfig
from train.launch.launchers.base import Hardware, Launcher, Machine
from train.launch.plan.planned_runs import PlannedPoint
from train.program import placeholder_values
from train.rank import placement
from train.rank.host import emulation_note
from train.rank.process import is_launcher_variable

# A process with TensorFlow and Horovod loaded: its peak resident memory before a model is built.
PROCESS_BYTES = 580_000_000
# Weights, gradients, momentum, allreduce buffers, and temporaries of the update and of TensorFlow's allocator.
# Chosen to be just above the peaks of two ranks: VGG16 4.2 to 4.6 GB (estimate 4.7), ResNet50 1.4 GB (1.5).
COPIES_OF_WEIGHTS = 7
COPIES_FOR_ROUNDS = 2  # weights and momentum, from which each window starts
COPIES_FOR_PASSES = 1  # the sum of the gradients of the passes so far
# Variables that a key of the configuration replaces: the ranks set them (train/distribution/__init__.py).
FROM_CONFIGURATION = {
    "HOROVOD_CYCLE_TIME": "distribution.cycle_time_ms",
    "HOROVOD_CONTROLLER": "distribution.controller",
    "HOROVOD_CPU_OPERATIONS": "distribution.controller",
    "HOROVOD_GLOO_IFACE": "launcher.interface",
    "NCCL_SOCKET_IFNAME": "launcher.interface",
    "HOROVOD_FUSION_THRESHOLD": "distribution.fusion_threshold_bytes",
    "HOROVOD_TIMELINE": "distribution.timeline",
    "HOROVOD_TIMELINE_MARK_CYCLES": "distribution.timeline",
}
_TUNING = ("HOROVOD_", "TF_", "OMP_", "KMP_", "NCCL_", "MALLOC_", "LD_", "PYTHON")


def memory_per_rank_bytes(config: RunConfig) -> int:
    """Return an estimate of one rank's memory: process + 7 x parameters x 4 bytes + batch x activations.

    A sweep of allreduces leaves out messages that do not fit, so only the process counts.
    """
    if config.allreduce_sweep:
        return PROCESS_BYTES
    copies = COPIES_OF_WEIGHTS + (COPIES_FOR_ROUNDS if config.launch.rounds else 0)
    copies += COPIES_FOR_PASSES if config.distribution.backward_passes_per_step > 1 else 0
    weights = copies * 4 * config.model.parameters
    arms = () if config.launch.rank_groups else config.launch.rounds  # each rank group has the batch of its own arm
    batch = max([config.batch_per_rank or 1, *(arm.batch_per_rank for arm in arms)])
    return PROCESS_BYTES + weights + batch * config.model.activation_bytes_per_image


def memory_shortage(config: RunConfig, available_bytes: int, hosts_apart: bool = False) -> str | None:
    """Return why the ranks of a point do not fit into the free memory; None if they do.

    available_bytes: of this machine, or with `hosts_apart` of each host.
    """
    if config.program:  # its memory is not known
        return None
    ranks = config.ranks_per_node if hosts_apart else config.ranks_of_job
    groups = [identity.config_of(config, number) for number in range(len(config.launch.rank_groups))]
    total = sum(memory_per_rank_bytes(group) * group.ranks for group in groups)
    total = total or memory_per_rank_bytes(config) * ranks
    if config.device != "cpu" or total <= available_bytes:
        return None
    return (
        f"{ranks} ranks of about {total / ranks / 2**30:.1f} GiB need {total / 2**30:.1f} GiB; "
        f"{'a host' if hosts_apart else 'this machine'} has {available_bytes / 2**30:.1f} GiB free. "
        f"Take fewer {'ranks_per_node' if hosts_apart else 'nodes'}, a smaller batch_per_rank or another model"
    )


def too_large(points: Sequence[PlannedPoint], launcher: Launcher) -> dict[str, str]:
    """Return the points that do not fit into memory, by name, and why."""
    reasons = {}
    for point in points:
        free = [host.free_bytes for host in launcher.hardware(point.config) if host.free_bytes is not None]
        if free and (why := memory_shortage(point.config, min(free), launcher.hosts_apart)):
            reasons[point.name] = why
    return reasons


def check_points(points: Sequence[PlannedPoint], launcher: Launcher) -> None:
    """Raise ConfigError if a point needs more GPUs than there are, or something that this machine lacks."""
    for point in points:
        needed = point.config.ranks_per_node if launcher.hosts_apart else point.config.ranks
        for host in launcher.hardware(point.config) if point.config.device == "gpu" else []:
            if needed > host.gpus:
                fewer = "ranks_per_node" if launcher.hosts_apart else "nodes or ranks_per_node"
                raise ConfigError(
                    f"device=gpu: {point.name} needs {needed} GPUs; {host.host} has {host.gpus}. "
                    f"Use fewer {fewer}, or device=cpu"
                )
        launcher.check_machine(point.config)


def shares_cores(config: RunConfig, available: list[int]) -> bool:
    """Return whether ranks of this machine compete for cores; those that are limited to a quota do not."""
    return not config.emulated and placement.shared(placement.cores_of_ranks(config, available))


def shared_core_warnings(points: Sequence[PlannedPoint], machine: Machine) -> list[str]:
    """Return a warning if nodes of this machine share cores; empty if none do."""
    available = affinity.usable_cores()
    names = [point.name for point in points if shares_cores(point.config, available)]
    if not names:
        return []
    no_quotas = f" CPU quotas, to emulate nodes with, are not available here: {machine.no_quotas}"
    return [
        f"{len(available)} cores are too few for {', '.join(names)}: ranks share cores there. "
        "The records say so, and the figures draw those points hollow: they are not valid as scaling results."
        + (no_quotas if machine.no_quotas else "")
    ]


def emulated_precision(points: Sequence[PlannedPoint], hardware: Sequence[Hardware]) -> list[str]:
    """Return a warning if points use a precision for which processors have no instructions."""
    flags_by_host = {host.host: host.cpu_flags for host in hardware if host.cpu_flags is not None}
    on_cpus = [point for point in points if point.config.device == "cpu"]
    alike = grouped(on_cpus, lambda point: emulation_note(point.config.precision, flags_by_host))
    return [f"{why} ({', '.join(point.name for point in having)})" for why, having in alike.items() if why]


def variable_warnings(variables: Mapping[str, str]) -> list[str]:
    """Return a warning for variables that the configuration replaces, and one for those that change what is measured.

    variables: those of the environment that can change a measurement.
    """
    warnings = []
    if replaced := sorted(FROM_CONFIGURATION.keys() & variables.keys()):
        keys = ", ".join(FROM_CONFIGURATION[name] for name in replaced)
        warnings.append(f"{', '.join(replaced)}: set in your environment, but the configuration decides: {keys}")
    tuning = [name for name in variables if name.startswith(_TUNING) and not is_launcher_variable(name)]
    if others := [f"{name}={variables[name]}" for name in tuning if name not in FROM_CONFIGURATION]:
        warnings.append(
            f"{', '.join(others)}: set in your environment. The records keep it, but a run counts as measured "
            "whatever the value was: FORCE=1 measures again, RESULTS=folder keeps the two apart"
        )
    return warnings


def limit_warnings() -> list[str]:
    """Return a warning if the address space of a process is limited (ulimit -v): TensorFlow maps more than it uses."""
    limit_bytes, _ = resource.getrlimit(resource.RLIMIT_AS)
    if limit_bytes == resource.RLIM_INFINITY:
        return []
    return [
        f"ulimit -v is {limit_bytes // 1024} ({limit_bytes / 2**30:.1f} GiB): TensorFlow maps more memory than "
        "it uses, and without it fails with errors that do not say so; ulimit -v unlimited"
    ]


def _reads(config: RunConfig) -> bool:
    return not config.allreduce_sweep and (config.dataset.files or config.weights != "none")


def points_to_check(points: Sequence[PlannedPoint]) -> list[PlannedPoint]:
    """Return one point for each input: the one with the largest global batch, which stands for the others."""
    by_input: dict[str, PlannedPoint] = {}
    for point in points:
        config = point.config
        # Repr shows all values: a dataset, a model and its weights are checked once.
        key = repr((config.dataset, config.model, config.weights))
        if _reads(config):
            by_input[key] = max(by_input.get(key, point), point, key=lambda each: each.config.global_batch or 0)
    return list(by_input.values())


def cannot_check(config: RunConfig, hosts_apart: bool) -> str | None:
    """Return why this process cannot check the input of the ranks; None if it can."""
    if importlib.util.find_spec("tensorflow") is None:
        return "there is no TensorFlow outside the container"
    home = Path(config.dataset.data_dir or "").expanduser()
    if hosts_apart and config.dataset.files and not home.exists():
        return f"dataset.data_dir={home} is not on this machine"
    return None


def check_input(points: Sequence[PlannedPoint], hosts_apart: bool) -> list[str]:
    """Check the input of the ranks; return lines that describe it. Raises ConfigError if ranks would fail to read it.

    hosts_apart: each node is a separate host, which may have files that this machine lacks.
    """
    messages = []
    for point in points_to_check(points):
        if why := cannot_check(point.config, hosts_apart):
            messages.append(f"{point.name}: data and weights are checked by the ranks: {why}")
            continue
        command = [sys.executable, "-m", "train.tools.prepare", *point.overrides]
        environment = {**os.environ, "COLUMNS": "10000"}  # what it says is wrapped when it is shown
        child = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
        if child.returncode:
            lines = child.stderr.strip().removeprefix("error: ").splitlines() or [f"exit status {child.returncode}"]
            raise ConfigError("\n".join(lines if child.returncode == 2 else lines[-12:]))
        messages += [line for line in child.stdout.splitlines() if line]
    return messages


def check_data_folder(config: RunConfig) -> None:
    """Raise ConfigError if the dataset is read from a folder that is missing or empty here."""
    if not config.dataset.files or not _reads(config):
        return
    folder = Path(config.dataset.data_dir or "").expanduser()
    if not folder.is_dir() or not any(folder.iterdir()):
        state = "is empty" if folder.is_dir() else "is no folder on this machine"
        raise ConfigError(f"dataset.data_dir={folder} {state}; the ranks read {config.dataset.name} there")


def check_program(config: RunConfig) -> None:
    """Raise ConfigError if a user's program or its folder is missing, or it is named as if it ran in another folder."""
    program = config.program
    if program is None:
        return
    folder = Path(program.folder) if program.folder else None
    if folder and not folder.is_dir():
        raise ConfigError(f"program.folder={folder}: no such folder")
    if config.container.name != "none":
        return
    words = filled(program.command, placeholder_values(config, ("localhost",) * config.nodes, 0))
    names = [name for word in words for name in word.split()]
    if folder is None and (here := next((name for name in names if Path(name).is_file() and name[0] != "/"), None)):
        why = f"the command runs in the folder of each launch, where there is no {here}; write {{here}}/{here}, "
        raise ConfigError(f"program.command={program.command}: {why}or ARGS=program.folder={Path.cwd()}")
    if gone := next((name for name in names if re.fullmatch(r"/.*\.py", name) and not Path(name).exists()), None):
        why = f"there is no file {gone}; COMMAND= names your own program"
        raise ConfigError(f"program.command={program.command}: {why}")
    if not shutil.which(words[0], path=search_path()) and not (folder and shutil.which(str(folder / words[0]))):
        why = f"no program {words[0]} on PATH or in the kit's .venv/bin; give its path, or add its folder to PATH"
        raise ConfigError(f"program.command={program.command}: {why}")
