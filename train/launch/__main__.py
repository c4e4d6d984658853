"""Run an experiment: expand it into points, launch each, continue after a failed one, resume what was interrupted.

python -m train.launch experiment=weak_scaling nodes=2 model=resnet50,vgg16
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

from rich.console import Console

from train.config.checks import ConfigError
from train.launch.batch import submission
from train.launch.batch.launcher import BatchLauncher
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.emulated import quota_means
from train.launch.plan import curves, input_check, preflight
from train.launch.plan.display import Terminal, show_lines, show_points
from train.launch.plan.expand import Expansion, expand
from train.launch.plan.job import Setting, make_job
from train.launch.plan.machine import Machine
from train.launch.plan.options import Options
from train.launch.plan.runs import Run, remaining, runs_of
from train.launch.start import images
from train.launch.supervise.alone import alone
from train.launch.supervise.runs import records_of, run_all, time_left
from train.launch.supervise.signals import Interrupted, interrupts_raised
from train.rank import placement, variables
from train.record.printable import printable_output
from train.tracking.live import Watchers
from train.tracking.mirror import mirror
from train.tracking.sync import SyncError, sync

WARNING, LEFT_OUT, ERROR = "[yellow]warning:[/yellow]", "[yellow]left out:[/yellow]", "[red]error:[/red]"


def main() -> int:
    """Run the launcher; the exit status is 0 only where every run of the experiment is complete, or submitted."""
    try:
        return launch(read_options(), Terminal(soft_wrap=True))
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename}: {error.strerror}", file=sys.stderr)
    return 2


def read_options() -> Options:
    """The options of the command line."""
    parser = argparse.ArgumentParser(prog="python -m train.launch", description=__doc__.splitlines()[0])
    parser.add_argument("--dry-run", action="store_true", help="print the plan and the commands, start nothing")
    parser.add_argument("--force", action="store_true", help="measure again what is measured: adds, replaces nothing")
    parser.add_argument("--only", metavar="POINT,POINT", help="these points alone, by their names")
    parser.add_argument("overrides", nargs="*", help="experiment=weak_scaling nodes=2 model=vgg16,resnet50 ...")
    given = parser.parse_intermixed_args()
    return Options(tuple(given.overrides), given.dry_run, given.force, given.only)


def launch(options: Options, console: Console) -> int:
    """Expand, check, show, then submit or run; returns the exit status."""
    machine = this_machine()
    expanded = expand(options.overrides, machine, LAUNCHERS)
    fitting = without_too_large(expanded, console)
    if not fitting.points:
        return 1
    plan = chosen_points(in_rounds(fitting, machine), options.only)
    check(plan, options)
    show(plan, machine, console)
    runs = runs_of(plan.points, plan.launcher)
    batch = plan.launcher if isinstance(plan.launcher, BatchLauncher) else None
    in_allocation = batch is not None and batch.inside(os.environ)
    if not (options.dry_run or in_allocation):
        check_input(runs, plan, options, console)
    if batch and not in_allocation:
        submission.submit(runs, batch, options, console)
        return 0
    if options.dry_run:
        console.print(time_left(*remaining(runs, options.force)), highlight=False)
        print_commands(plan)
        return 0
    # Jobs of a batch system share a results folder, each with points of its own.
    with ExitStack() as folders:
        for folder in {run.home for run in runs} if batch else {Path(runs[0].point.config.results)}:
            folders.enter_context(alone(folder))
        return measure(runs, plan, options, console) or (0 if fitting is expanded else 1)


def this_machine() -> Machine:
    """This machine, with its usable cores, and whether quotas are available."""
    means = quota_means()
    return Machine(len(placement.usable_cores()), means if isinstance(means, str) else None)


def in_rounds(plan: Expansion, machine: Machine) -> Expansion:
    """The plan with points that can share a launch measured in rounds."""
    launcher = plan.launcher
    nested = curves.plan(
        plan.points, machine.cores, launcher.hosts_apart, lambda curve: not preflight.too_large([curve], launcher)
    )
    return replace(plan, points=(*nested.points, *nested.curves), without_rounds=nested.reasons)


def chosen_points(plan: Expansion, only: str | None) -> Expansion:
    """The plan with the points that the user wants. Raises ConfigError where one is not there."""
    there = [point.name for point in plan.points]
    wanted = there if only is None else only.split(",")
    if unknown := [name for name in wanted if name not in there]:
        raise ConfigError(f"--only {','.join(unknown)}: no such point; allowed are {', '.join(there)}")
    return replace(plan, points=tuple(point for point in plan.points if point.name in wanted))


def check(plan: Expansion, options: Options) -> None:
    """Raise ConfigError where a point needs a GPU, a host, an image, a program or a folder that is missing."""
    preflight.check(plan.points, plan.launcher)
    if not options.dry_run:
        preflight.check_results(Path(plan.points[0].config.results))
    for point in plan.points if not options.dry_run else ():
        images.digest(point.config.container)
        plan.launcher.mpirun(point.config)


def show(plan: Expansion, machine: Machine, console: Console) -> None:
    """Show the points, and what the user should know before they are measured."""
    launcher, config = plan.launcher, plan.points[0].config
    show_points(plan.points, console)
    crowded = preflight.crowded(plan.points, machine) if not launcher.hosts_apart else []
    emulated = preflight.emulated_precision(plan.points, launcher.cpu_flags(config))
    tuned = preflight.tuned(variables.recorded())
    show_lines(WARNING, [*crowded, *emulated, *tuned, *launcher.warnings(config)], console)
    show_lines(LEFT_OUT, plan.left_out, console)
    show_lines("", [f"points are measured in launches of their own: {why}" for why in plan.without_rounds], console)
    show_lines("", launcher.notes(config), console)


def without_too_large(plan: Expansion, console: Console) -> Expansion:
    """The plan without the points that do not fit into memory; the same plan where all fit."""
    large = preflight.too_large(plan.points, plan.launcher)
    show_lines(ERROR, [f"{name} is left out: {why}" for name, why in large.items()], console)
    if not large:
        return plan
    return replace(plan, points=tuple(point for point in plan.points if point.name not in large))


def check_input(runs: Sequence[Run], plan: Expansion, options: Options, console: Console) -> None:
    """Show what the runs that are still to be made will read. Raises ConfigError where they would fail."""
    to_do, _ = remaining(runs, options.force)
    points = {run.home: run.point for run in to_do}
    show_lines("", input_check.check(list(points.values()), plan.launcher.hosts_apart), console)


def print_commands(plan: Expansion) -> None:
    """Print the command of each point."""
    for point in plan.points:
        setting = Setting(plan.launcher.hosts(point.config), plan.launcher.mpirun(point.config))
        job = make_job(point, (Run(point, 0).home / "r0").resolve(), setting)
        print(shlex.join(plan.launcher.command(job)))


def measure(runs: Sequence[Run], plan: Expansion, options: Options, console: Console) -> int:
    """Make the runs and mirror their records; returns the exit status."""
    interruption = None
    failed: list[str] = []
    watchers = Watchers()
    with interrupts_raised():
        try:
            failed = run_all(runs, plan.launcher, options.force, console, [watchers.watch])
        except Interrupted as caught:
            interruption = caught
            console.print(f"interrupted by {caught}: what was measured is kept, the same command resumes from here")
    show_lines(WARNING, watchers.finish(), console)
    track(runs, console)
    if interruption:
        return 128 + interruption.signal
    if failed:
        show_lines(f"[red]{len(failed)} of {len(runs)} runs failed:[/red]", [", ".join(failed)], console)
        console.print("The same command runs only these again.")
    return 1 if failed else 0


def track(runs: Sequence[Run], console: Console) -> None:
    """Mirror the records that have no complete W&B run, after all measuring; upload them where that is asked."""
    config = runs[0].point.config
    show_lines(WARNING, mirror(records_of(runs), config.tracking), console)
    if config.tracking.sync or (config.tracking.name == "wandb" and config.tracking.mode == "online"):
        try:
            sync(Path(config.results))
        except SyncError as error:
            show_lines(WARNING, [str(error)], console)


if __name__ == "__main__":
    with printable_output():
        sys.exit(main())
