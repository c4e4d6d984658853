"""Slurm: from runs to a batch script (pure), to its submission, to what became of it.

The script holds one command: this same launcher, which inside the allocation starts each run with srun, writes its
record, and goes on. So a job that meets its time limit, or that Slurm starts again, has lost nothing that was measured.
"""

from __future__ import annotations

import functools
import json
import math
import os
import re
import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from train.config.schema import Config, ConfigError, System
from train.launch.plan.job import ROOT

INSIDE = "KIT_IN_ALLOCATION"  # set by the batch script: the launcher that sees it starts runs, it does not submit
_MARGIN, _MARGIN_S = 2, 600  # a job that ends early costs nothing, one that is cut off waits in the queue again
LEAVE_S = 60  # how long before the time limit Slurm tells the launcher to end in order
_JOBS = "slurm"  # the folder of scripts and logs, in that of the experiment


@dataclass(frozen=True)
class Batch:
    """One job to submit."""

    name: str
    nodes: int
    ranks_per_node: int
    cores_per_rank: int
    gpus_per_node: int
    limit_s: int
    log: Path
    system: System
    command: tuple[str, ...]  # the launcher, with the overrides of the user


@dataclass(frozen=True)
class Submitted:
    """One job that was submitted, as it is kept beside its script."""

    job_id: str
    nodes: int
    repeats: int
    homes: list[str]  # the folders of the points that it runs


def limit_text(seconds: int) -> str:
    """A time as sbatch takes it, in whole minutes, rounded up: 5400 -> 01:30:00."""
    minutes = math.ceil(seconds / 60)
    return f"{minutes // 60:02d}:{minutes % 60:02d}:00"


def time_limit_s(config: Config, estimate_s: float) -> int:
    """How long a job may last: as configured, else twice the estimate and ten minutes, within what the site allows."""
    asked = config.launcher.time_limit_s or math.ceil(_MARGIN * estimate_s + _MARGIN_S)
    return min(asked, config.system.longest_s or asked)


def script(batch: Batch) -> str:
    """The batch script, whole."""
    options = [
        f"--job-name={batch.name}",
        f"--nodes={batch.nodes}",
        f"--ntasks-per-node={batch.ranks_per_node}",
        f"--cpus-per-task={batch.cores_per_rank}",
        *([f"--gpus-per-node={batch.gpus_per_node}"] if batch.gpus_per_node else []),
        f"--time={limit_text(batch.limit_s)}",
        f"--signal=B:TERM@{LEAVE_S}",
        "--requeue",
        "--exclusive",
        "--mem=0",
        "--open-mode=append",
        f"--output={batch.log}",
        *([f"--partition={batch.system.partition}"] if batch.system.partition else []),
        *([f"--account={batch.system.account}"] if batch.system.account else []),
        *batch.system.sbatch,
    ]
    lines = ["#!/bin/bash", *(f"#SBATCH {option}" for option in options), "", f"cd {shlex.quote(str(ROOT))} || exit"]
    lines += [*batch.system.setup, f"export {INSIDE}=1"]
    # A step does not inherit --cpus-per-task from its job since Slurm 22.05, and the launcher gives each its own.
    lines += ["unset SLURM_CPUS_PER_TASK SLURM_NTASKS_PER_NODE SLURM_NTASKS SLURM_NPROCS"]
    return "\n".join([*lines, f"exec {shlex.join(batch.command)}", ""])


def inside(variables: Mapping[str, str]) -> bool:
    """Whether this launcher runs in an allocation that it was submitted to."""
    return INSIDE in variables and "SLURM_JOB_ID" in variables


def _ask(*command: str) -> str:
    """What a command of Slurm's prints. Raises ConfigError where there is no Slurm, or it refuses."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, stdin=subprocess.DEVNULL)
    except FileNotFoundError:
        raise ConfigError(f"launcher=slurm: there is no command {command[0]} on this machine") from None
    except subprocess.TimeoutExpired:
        raise ConfigError(f"launcher=slurm: {command[0]} gave no answer within 60 s") from None
    if done.returncode:
        raise ConfigError(f"launcher=slurm: {shlex.join(command)}: {done.stderr.strip()}")
    return done.stdout


def allocated_hosts() -> list[str]:
    """The hosts of this allocation, in Slurm's order."""
    return _ask("scontrol", "show", "hostnames", os.environ["SLURM_JOB_NODELIST"]).split()


def cores_of_a_node(system: System) -> int:
    """The fewest CPUs that a node of the partition has, as sinfo says. Raises ConfigError."""
    partition = [f"--partition={system.partition}"] if system.partition else []
    found = re.findall(r"^\*?(\d+)", _ask("sinfo", "--noheader", *partition, "--format=%c"), re.M)
    if not found:
        raise ConfigError(f"system.partition={system.partition}: sinfo shows no node in it; see `sinfo`")
    return min(map(int, found))


def submit(batch: Batch, folder: Path, repeats: int, homes: Sequence[Path]) -> Submitted:
    """Write the script, submit it, and keep beside it what it runs. Raises ConfigError and OSError."""
    jobs = folder / _JOBS
    jobs.mkdir(parents=True, exist_ok=True)
    path = jobs / f"{batch.name}.sbatch"
    path.write_text(script(batch))
    job_id = _ask("sbatch", "--parsable", str(path)).strip().partition(";")[0]
    done = Submitted(job_id, batch.nodes, repeats, [str(home) for home in homes])
    (jobs / f"{job_id}.json").write_text(json.dumps(asdict(done)))
    return done


def submitted(results: Path) -> list[Submitted]:
    """Every job that was submitted for records below `results`."""
    found = sorted(results.glob(f"*/{_JOBS}/*.json"))
    return [Submitted(**json.loads(path.read_text())) for path in found]


@functools.cache
def states() -> dict[str, str]:
    """The jobs that Slurm still has, and the state of each in its words: PENDING, RUNNING ..."""
    lines = _ask("squeue", "--noheader", "--me", "--format=%i %T").splitlines()
    return dict(line.split(maxsplit=1) for line in lines)
