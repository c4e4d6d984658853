"""Run an experiment: expand it into points, launch each, go on after a failed one, resume what was interrupted.

python -m train.launch experiment=weak_scaling nodes=2 model=resnet50,vgg16
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

import psutil
from omegaconf import DictConfig
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from train import tracking
from train.config.schema import Config, ConfigError
from train.launch.emulate import cgroups, networks
from train.launch.plan import hosts, input_check, preflight
from train.launch.plan.job import make_job
from train.launch.plan.points import Point, expand
from train.launch.slurm import batch, submission
from train.launch.start import images
from train.launch.start import mpirun as mpi
from train.launch.start.commands import command
from train.launch.supervise.execute import Interrupted, interrupts_raise
from train.launch.supervise.runs import Run, Where, records_of, run_all
from train.rank import environment, placement
from train.record import paths


def show_plan(points: Sequence[Point], console: Console) -> None:
    """What will be run, as a table."""
    table = Table(box=None, header_style="bold")
    table.add_column("point", no_wrap=True)
    for head in ("ranks", "cores a node", "threads a rank", "batch a rank", "global batch", "steps"):
        table.add_column(head, justify="right")
    for point in points:
        config = point.config
        steps = f"{config.measure.epochs} epochs" if config.measure.epochs else str(config.measure.timed_steps)
        batches = (str(config.batch_per_rank), str(config.global_batch))
        if config.allreduce_sweep:
            steps, batches = f"{len(config.allreduce_sweep.sizes_bytes)} sizes", ("", "")
        numbers = (config.ranks, config.system.cpus_per_node or config.system.cores_per_node, config.threads_per_rank)
        table.add_row(point.name, *map(str, numbers), *batches, steps)
    console.print(table)
    launches = sum(point.config.measure.repeats for point in points)
    console.print(f"{len(points)} points, {launches} launches: every repeat is a launch of its own")


def mirror(planned: Sequence[Run], console: Console) -> None:
    """Mirror the records to tracking, after all measuring."""
    settings = planned[0].point.config.tracking
    for problem in tracking.mirror(records_of(planned), settings):
        console.print(f"[yellow]warning:[/yellow] {escape(problem)}", highlight=False)
    if settings.sync:
        try:
            tracking.sync(Path(planned[0].point.config.results))
        except tracking.SyncError as error:
            console.print(f"[yellow]warning:[/yellow] {escape(str(error))}", highlight=False)


def _check_gpus(points: Sequence[Point], found: Sequence[hosts.Host]) -> None:
    """Raise ConfigError where a point wants more GPUs than there are."""
    for point in points:
        config = point.config
        if config.launcher.name == "local":
            preflight.check_gpus(config, point.name, config.ranks, len(environment.gpus()), "nvidia-smi shows")
        elif config.launcher.name == "slurm":
            there = config.system.gpus_per_node
            preflight.check_gpus(config, point.name, config.ranks_per_node, there, "system.gpus_per_node says")
        for host in found:
            preflight.check_gpus(config, point.name, config.ranks_per_node, len(host.gpus), f"{host.name} shows")


def _free_bytes(found: Sequence[hosts.Host]) -> int:
    return min((host.free_bytes for host in found), default=psutil.virtual_memory().available)


def main() -> int:
    """Expand, check, run or submit, mirror. The exit status is 0 only where every run of the experiment is complete."""
    parser = argparse.ArgumentParser(prog="python -m train.launch", description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="print the plan and the commands, start nothing")
    parser.add_argument("--force", action="store_true", help="measure again what is measured: adds, replaces nothing")
    parser.add_argument("--only", metavar="POINT", help="this point alone, by its name")
    parser.add_argument("overrides", nargs="*", help="experiment=weak_scaling nodes=2 model=vgg16,resnet50 ...")
    arguments = parser.parse_intermixed_args()
    console = Console(soft_wrap=True)
    try:
        return _main(arguments, console)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
    return 2


def _main(arguments: argparse.Namespace, console: Console) -> int:
    available = placement.usable_cores()
    left_out: list[str] = []
    found: list[hosts.Host] = []

    def asked(config: Config | DictConfig) -> list[hosts.Host]:
        if config.launcher.hosts and not found:
            found.extend(hosts.ask(config.launcher.hosts, Path(config.results), preflight.sif(config)))
        return found

    def host_cores(experiment: DictConfig) -> int:
        if experiment.launcher.name == "slurm":
            return batch.cores_of_a_node(experiment.system)
        return min((host.cores for host in asked(experiment)), default=1)

    means = cgroups.find()
    no_quotas = means if isinstance(means, str) else None
    points = expand(arguments.overrides, len(available), left_out, no_quotas, host_cores)
    points = [point for point in points if arguments.only in (None, point.name)]
    if not points:
        raise ConfigError(f"--only {arguments.only}: no such point")
    first = points[0].config
    _check_gpus(points, asked(first))
    preflight.check_networks(points, networks.missing())
    if not arguments.dry_run:
        for point in points:
            images.digest(point.config.container)
            mpi.implementation(point.config)
    show_plan(points, console)
    warnings = preflight.warnings(points, environment.variables(), no_quotas)
    for warning in [*warnings, *([differ] if (differ := hosts.unequal(found)) else [])]:
        console.print(f"[yellow]warning:[/yellow] {escape(warning)}", highlight=False)
    for reason in left_out:
        console.print(f"[yellow]left out:[/yellow] {escape(reason)}", highlight=False)
    if told := preflight.emulation(first):
        console.print(told, highlight=False)
    too_large: dict[str, str] = {}
    if first.launcher.name != "slurm":  # what its nodes have free, Slurm knows
        free_bytes = _free_bytes(found)
        too_large = {p.name: why for p in points if (why := preflight.memory_shortage(p.config, free_bytes))}
    for name, why in too_large.items():
        console.print(f"[red]error:[/red] {name} is left out: {escape(why)}", highlight=False)
    points = [point for point in points if point.name not in too_large]
    # Repeats are the outer loop: arms and points interleave, so that a slow drift of the machine falls on all alike.
    most = max((point.config.measure.repeats for point in points), default=0)
    planned = [Run(p, repeat) for repeat in range(most) for p in points if repeat < p.config.measure.repeats]
    run_on: Sequence[str] = first.launcher.hosts
    if not arguments.dry_run and not (first.launcher.name == "slurm" and batch.inside(os.environ)):
        remaining = {
            run.home: run.point for run in planned if arguments.force or not paths.completed(run.home, run.repeat)
        }
        for line in input_check.look(list(remaining.values())):
            console.print(line, highlight=False, markup=False)
    if first.launcher.name == "slurm":
        planned = submission.in_order(planned, first.launcher.order)
        if not batch.inside(os.environ):
            return submission.submit(
                planned, arguments.overrides, arguments.force, arguments.only, arguments.dry_run, console
            )
        run_on = batch.allocated_hosts()
    if arguments.dry_run:
        for point in points:
            home, mpirun = Run(point, 0).home, mpi.implementation(point.config)
            print(shlex.join(command(make_job(point, home / "r0", mpirun=mpirun, hosts=run_on))))
        return 0
    interruption = None
    failed: list[str] = []
    with interrupts_raise():
        try:
            failed = run_all(
                planned,
                Where(tuple(run_on), means if isinstance(means, cgroups.Means) else None),
                arguments.force,
                console,
            )
        except Interrupted as caught:
            interruption = caught
            console.print(f"interrupted by {caught}: what was measured is kept, the same command goes on from here")
    if planned:
        mirror(planned, console)
    if interruption:
        return 128 + interruption.signal
    if failed:
        console.print(f"[red]{len(failed)} of {len(planned)} runs failed:[/red] {', '.join(failed)}", highlight=False)
        console.print("The same command runs only these again.")
    return 1 if failed or too_large else 0


if __name__ == "__main__":
    sys.exit(main())
