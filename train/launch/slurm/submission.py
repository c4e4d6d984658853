"""From the runs that are still to be made to jobs of Slurm: what they will cost, and their submission."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from train.config.schema import ConfigError
from train.launch.slurm import batch as slurm
from train.launch.slurm.batch import Batch
from train.launch.status import of_jobs
from train.launch.supervise.runs import Run, expected_s
from train.record import paths


@dataclass(frozen=True)
class Planned:
    """A job and the runs that it will make."""

    batch: Batch
    runs: tuple[Run, ...]
    estimate_s: float


def in_order(planned: Sequence[Run], order: str) -> list[Run]:
    """The runs, repeat by repeat, by the nodes that they take: small or large first, else as they stand."""
    sign = -1 if order == "large_first" else 1
    return sorted(planned, key=lambda run: (run.repeat, sign * run.point.config.nodes))


def _job(runs: Sequence[Run], known: dict[str, list[float]], command: Sequence[str]) -> Planned:
    configs = [run.point.config for run in runs]
    largest = max(configs, key=lambda config: config.nodes)
    assumed = largest.launcher.assumed_run_s
    estimate_s = sum(expected_s(run, known) or assumed for run in runs)
    ranks_per_node = max(config.ranks_per_node for config in configs)
    cores = largest.system.cores_per_node or 1
    points = sorted({run.point.name for run in runs})
    name = f"{largest.experiment}-{points[0]}" if len(points) == 1 else f"{largest.experiment}-nodes{largest.nodes}"
    log = runs[0].home.parents[1].resolve() / "slurm" / f"{name}.%j.log"
    batch = Batch(
        name=name,
        nodes=largest.nodes,
        ranks_per_node=ranks_per_node,
        cores_per_rank=max(1, cores // ranks_per_node),
        gpus_per_node=ranks_per_node if largest.device == "gpu" else 0,
        limit_s=slurm.time_limit_s(largest, estimate_s),
        log=log,
        system=largest.system,
        command=tuple(command),
    )
    return Planned(batch, tuple(runs), estimate_s)


def jobs(
    todo: Sequence[Run], known: dict[str, list[float]], overrides: Sequence[str], force: bool, only: str | None = None
) -> list[Planned]:
    """The jobs that make these runs: one for all, or with launcher.split one for each point.

    only: the point that the user asked for alone, if any.
    """
    if not todo:
        return []
    config = todo[0].point.config
    command = [sys.executable, "-m", "train.launch", *(["--force"] if force else []), *overrides]
    # The cores of a node, once known, are the same for all jobs of the experiment, and inside them.
    cores = f"system.cores_per_node={config.system.cores_per_node}"
    command += [cores] if cores not in overrides else []
    if not config.launcher.split:
        return [_job(todo, known, [*command, *(["--only", only] if only else [])])]
    names = dict.fromkeys(run.point.name for run in todo)
    return [_job([run for run in todo if run.point.name == name], known, [*command, "--only", name]) for name in names]


def cost(planned: Planned, measured: int) -> str:
    """What a job will take, and where that is known from."""
    hours = planned.estimate_s * planned.batch.nodes / 3600
    config = planned.runs[0].point.config
    source = (
        f"from {measured} earlier runs of this experiment"
        if measured
        else f"each run taken as {config.launcher.assumed_run_s} s (launcher.assumed_run_s): none was measured yet"
    )
    return (
        f"{planned.batch.name}: {len(planned.runs)} runs on at most {planned.batch.nodes} nodes, about "
        f"{math.ceil(planned.estimate_s / 60)} min, {hours:.1f} node-hours, {source}; "
        f"time limit {slurm.limit_text(planned.batch.limit_s)}"
    )


def submit(
    planned: Sequence[Run], overrides: Sequence[str], force: bool, only: str | None, dry_run: bool, console: Console
) -> int:
    """Say what it will cost and submit, or print the scripts; gives the exit status.

    only: as for `jobs`.
    Raises ConfigError where Slurm refuses, or has these runs in its queue already, and OSError.
    """
    config = planned[0].point.config
    results = Path(config.results)
    known: dict[str, list[float]] = {}
    todo = []
    for run in planned:
        done = paths.completed(run.home, run.repeat)
        if done:
            known.setdefault(run.point.name, []).append(done.job_s)
        if force or not done:
            todo.append(run)
    if len(todo) < len(planned):
        console.print(f"{len(planned) - len(todo)} of {len(planned)} runs are measured already; FORCE=1 measures again")
    if not todo:
        console.print("nothing to submit; `make figures` draws what was measured")
        return 0
    if config.system.remark:
        console.print(f"[yellow]system={config.system.name}:[/yellow] {escape(config.system.remark)}", highlight=False)
    measured = sum(map(len, known.values()))
    wanted = jobs(todo, known, overrides, force, only)
    for job in wanted:
        console.print(cost(job, measured), highlight=False)
        if job.estimate_s > job.batch.limit_s - slurm.LEAVE_S:
            console.print(
                "[yellow]warning:[/yellow] it will not end within its time limit; what it measured is kept, and the "
                "same command submits the rest",
                highlight=False,
            )
    if dry_run:
        for job in wanted:
            print(slurm.script(job.batch))
        return 0
    alive = of_jobs(slurm.submitted(results), slurm.states())
    if waiting := sorted({run.point.name for run in todo if run.home in alive}):
        raise ConfigError(
            f"{', '.join(waiting)}: a job that will run this is in the queue; `make status` shows it, scancel ends it"
        )
    for job in wanted:
        homes = dict.fromkeys(run.home for run in job.runs)
        repeats = max(run.point.config.measure.repeats for run in job.runs)
        sent = slurm.submit(job.batch, job.runs[0].home.parents[1], repeats, list(homes))
        console.print(f"submitted job {sent.job_id} ({job.batch.name}); `make status` shows what becomes of it")
    return 0
