"""The facts of an application for compute time, from records: the code, its problem, the machine.

What records do not say is marked as to be filled in by the author.
"""

import math
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from analysis import labels
from analysis.compare.sessions import days
from common.terminal import counted
from record.recorded_config import nodes_share_machine
from record.schema import ProgramFacts, RunRecord

BLANK = "[to be filled in]"
_PACKAGES = ("tensorflow", "tensorflow-cpu", "tf_keras", "horovod")
# Files of libraries -> what they are for.
_MODELS = {"MPI": r"libmpi", "OpenMP": r"lib(gomp|iomp5|omp)\b", "CUDA": r"libcuda", "NCCL": r"lib[nr]ccl"}


@dataclass(frozen=True)
class Node:
    """The hardware of one node that a job takes."""

    cores: float  # NaN: not known; a fraction, where nodes are emulated
    gpus: int


def node(run: RunRecord) -> Node:
    """Return the hardware of one node of a run: a share of the machine, or a whole host."""
    config, hosts = run.config, run.environment.hosts if run.environment else []
    gpus = config["ranks_per_node"] if config["device"] == "gpu" else 0
    if quota := config["system"].get("cpu_quota_per_node"):
        return Node(quota, gpus)
    if nodes_share_machine(config):
        return Node(len({core for rank in run.ranks if rank.node == 0 for core in rank.cores}) or math.nan, gpus)
    return Node(max((host.cores for host in hosts), default=0) or math.nan, gpus)


def code(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Return what was run: code, compilers, libraries, parallel model, problem, command line."""
    environments = [run.environment for run in runs if run.environment]
    largest = max(runs, key=lambda run: len(run.ranks))
    programs = [run.program for run in runs if run.program]
    compilers = [f"Horovod: {e.compilers}" for e in environments if e.compilers]
    compilers += [f"{Path(path).name}: {names}" for p in programs for path, names in p.compilers.items()]
    mpi = [e.mpi for e in environments if e.mpi] + [name for p in programs for name in _libraries(p, "MPI")]
    libraries = [f"NCCL {e.nccl}" for e in environments if e.nccl]
    libraries += [Path(path).name for p in programs for path in p.libraries if not re.search("libmpi", path)]
    rows = {
        "code": _listed(map(_code, runs)),
        "compiler": _listed(compilers),
        "MPI": _listed(mpi),
        "other libraries": _listed(libraries),
        "parallel model": _parallel_model(largest, programs),
        "problem": _listed(_problem(run) for run in runs),
        "command line, largest size": shlex.join(
            largest.program.command if largest.program else largest.typed_command or largest.command
        ),
    }
    needed = ("code", "compiler", "MPI", "parallel model", "problem")
    return {name: text or BLANK for name, text in rows.items() if text or name in needed}


def machine(runs: Sequence[RunRecord]) -> dict[str, str]:
    """Return where it was run: node, hosts, software of the system, days, hours of the study."""
    environments = [run.environment for run in runs if run.environment]
    hosts = [host for environment in environments for host in environment.hosts]
    nodes = {node(run) for run in runs}
    started = [run.started_at for run in runs]
    hours = math.fsum(run.job_s * (len({rank.node for rank in run.ranks}) or 1) for run in runs) / 3600
    cores = {one.cores for one in nodes}
    rows = {
        "target machine, if another": BLANK,
        "processors of a host": _listed(
            f"{host.cores} cores, {host.cpu_model}, {host.memory_bytes / 2**30:.0f} GiB" for host in hosts if host.cores
        ),
        "a node": _listed(_node_text(one) for one in nodes),
        "GPUs": _listed(gpu for host in hosts for gpu in host.gpus),
        "hosts": str(len({host.host for host in hosts}) or ""),
        "kernel": _listed(host.kernel for host in hosts),
        "Python": _listed(e.versions.get("python", "") for e in environments),
        "image": _listed(e.image_digest or e.image or "" for e in environments),
        "launcher": _listed(run.config.get("launcher", {}).get("name", "") for run in runs),
        "input and output": _listed(_file_traffic(run) for run in runs) or BLANK,
        "measured with": _listed(map(_kit, runs)),
        "measured on": days(min(started), max(started)),
        "node hours of the study": f"{hours:.2f}",
    }
    if len(cores) == 1 and not math.isnan(core := cores.pop()):
        rows["node hours of the study"] += f" ({hours * core:.2f} core hours)"
    return {name: text for name, text in rows.items() if text}


def _listed(texts: Iterable[str]) -> str:
    return "; ".join(dict.fromkeys(filter(None, texts)))


def _node_text(one: Node) -> str:
    cores = f"cores: {BLANK}" if math.isnan(one.cores) else counted(one.cores, "core")
    return ", ".join(filter(None, (cores, counted(one.gpus, "GPU") if one.gpus else "")))


def _code(run: RunRecord) -> str:
    if run.program:
        return f"{run.config['program']['name']}, version {run.program.version or BLANK}"
    versions = run.environment.versions if run.environment else {}
    return ", ".join(f"{name} {versions[name]}" for name in _PACKAGES if name in versions)


def _libraries(program: ProgramFacts, model: str) -> list[str]:
    names = [Path(path).name for path in program.libraries]
    return [name for name in names if re.match(_MODELS[model], name)]


def _parallel_model(run: RunRecord, programs: Sequence[ProgramFacts]) -> str:
    """Return how the processes of the largest run share the work; what joins those of a program, by its libraries."""
    threads = run.config["threads_per_rank"] or min((len(rank.cores) for rank in run.ranks), default=0) or 1
    size = f"{len(run.ranks)} processes of {counted(threads, 'thread')} on the largest size"
    if run.program:
        models = [name for name in _MODELS if any(_libraries(program, name) for program in programs)]
        return f"{', '.join(models) or BLANK}; {size}"
    distribution = run.config["distribution"]
    joined = " over ".join(filter(None, (distribution["backend"], distribution.get("controller", ""))))
    return f"data parallel, {joined}; {size}"


def _problem(run: RunRecord) -> str:
    config = run.config
    if program := config.get("program"):
        return program.get("problem") or ""
    model, size = config["model"], config["model"].get("image_size")
    parameters = f" ({model['parameters']:,} parameters)" if model.get("parameters") else ""
    images = f"{config['dataset']['name']} images" + (f" of {size} x {size}" if size else "")
    details = f"{config['precision']}, {config['optimizer']['name']}"
    return f"training of {labels.name(model['name'])}{parameters} on {images}, {details}"


def _file_traffic(run: RunRecord) -> str:
    if run.program is None:
        synthetic = run.config["dataset"]["name"] == "synthetic"
        return "none in the timed steps: images are made in memory" if synthetic else "images are read from files"
    if run.program.read_bytes is None or run.program.written_bytes is None:
        return ""
    read, written = (f"{number / 1e6:.1f} MB" for number in (run.program.read_bytes, run.program.written_bytes))
    return f"{read} read, {written} written on {counted(len({rank.node for rank in run.ranks}), 'node')}"


def _kit(run: RunRecord) -> str:
    e = run.environment
    commit = f", commit {e.git_commit[:12]}{' with changes' * bool(e.git_dirty)}" if e and e.git_commit else ""
    return f"{' '.join(filter(None, ('Horovod scaling kit', run.kit_version)))}{commit}"
