"""From a plan to its records: the same steps for one experiment and for each experiment of a report."""

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from rich.console import Console

from common import affinity, printable
from record import ledger, protocol
from record import run_files as files
from record.schema import RECORD_NAME
from train.config.checks import ConfigError
from train.config.program import filled
from train.config.results import check_results
from train.launch.batch import submit
from train.launch.cgroups import quota_method
from train.launch.job import make_job
from train.launch.launchers.base import BatchLauncher, Launcher, Machine
from train.launch.plan import point_checks, program_launches
from train.launch.plan.make_plan import Options, Plan, make
from train.launch.plan.planned_runs import Run, remaining, runs_of
from train.launch.plan.queue import Queue
from train.launch.screen import ERROR, LAST_LINES, LEFT_OUT, WARNING, Screen, curve_plan_lines, show_lines, show_points
from train.launch.start import containers
from train.launch.supervise.interrupted import record_interrupted
from train.launch.supervise.one_run import Watch, attempt
from train.launch.supervise.presence import alone
from train.launch.supervise.read_again import proposals_by_clock, read_again
from train.launch.supervise.signals import Interrupted, interrupts_raised
from train.program import placeholder_values
from train.rank import process
from train.rank.host import loopback_problem
from train.tracking.mirror import UploadError, Watchers, mirror_records, upload_runs

WRONG_INPUT = 2  # exit status


def launch(options: Options, console: Console) -> int:
    """Make the plan, show it, and carry it out; returns the exit status."""
    files.source_files()  # as they are when the command begins: all its launches run this code
    plan = make(options.overrides, this_machine(), options.only)
    if plan.points:
        affinity.use(plan.points[0].config.system.smt)
    show_plan(plan, console, whole=options.dry_run)
    return carry_out(plan, options, console) if plan.points else 1


def this_machine() -> Machine:
    """Return this machine, with its usable cores, and whether quotas are available."""
    method = quota_method()
    cpus = affinity.usable_cores()
    return Machine(len(affinity.whole_cores(cpus)), method if isinstance(method, str) else None, len(cpus))


def show_plan(plan: Plan, console: Console, whole: bool = True) -> None:
    """Show the points, with warnings and notes, before they are measured. whole: of curves over nodes each point."""
    show_lines(WARNING if plan.points else ERROR, [f"left out: {line}" for line in plan.too_large], console)
    if not plan.points:
        return
    launcher, config = plan.launcher, plan.points[0].config
    if brief := [] if whole else curve_plan_lines(plan.points):
        show_lines("", brief, console)
    else:
        show_points(plan.points, console)
    crowded = point_checks.shared_core_warnings(plan.points, plan.machine) if not launcher.hosts_apart else []
    emulated = point_checks.emulated_precision(plan.points, launcher.hardware(config))
    variables = [*point_checks.variable_warnings(process.recorded_variables()), *point_checks.limit_warnings()]
    show_lines(WARNING, [*crowded, *emulated, *variables, *launcher.warnings(config)], console)
    show_lines(LEFT_OUT, plan.left_out, console)
    show_lines("", [f"points are measured in separate launches: {why}" for why in plan.without_rounds], console)
    show_lines("", launcher.notes(config), console)


def carry_out(plan: Plan, options: Options, console: Console) -> int:
    """Run or submit what is not measured yet, or in a dry run print the commands; returns the exit status.

    It is 0 only if every run of the experiment is complete, or submitted. Raises ConfigError, OSError.
    """
    runs = runs_of(plan.points, plan.launcher)
    system = plan.launcher if isinstance(plan.launcher, BatchLauncher) else None
    submits = plan.launcher.submits(os.environ)
    if not options.dry_run:
        check_machine(plan, console)
        if submits or not system:
            to_do, _ = remaining(runs, options.force)
            points = {run.home: run.point for run in to_do}
            show_lines("", point_checks.check_input(list(points.values()), plan.launcher.hosts_apart), console)
    if system and submits:
        submit(runs, system, options)
        return 0
    if options.dry_run:
        show_lines("", Queue(runs, options.force).remarks(), console)
        print_commands(plan)
        for check in (point_checks.check_data_folder, point_checks.check_program):
            try:
                check(plan.points[0].config)
            except ConfigError as error:  # it may run on another machine
                show_lines(WARNING, [str(error)], console)
        return 0
    # Jobs of a batch system share a results folder, each with its own points.
    with ExitStack() as folders:
        for folder in {run.home for run in runs} if system else {Path(runs[0].point.config.results)}:
            folders.enter_context(alone(folder))
        show_lines("", record_interrupted({run.home for run in runs}), console)
        if not options.force and (again := read_again(plan.points)):
            show_lines("", [f"{again} launches were read again with another pattern, and not measured again"], console)
        return make_runs(runs, plan, options.force, console) or int(bool(plan.too_large))


def check_machine(plan: Plan, console: Console) -> None:
    """Raise ConfigError if an image or a program is missing, or the folder of the records cannot hold them."""
    config = plan.points[0].config
    show_lines(WARNING, check_results(Path(config.results), config.system.trust_others), console)
    meets_here = config.ranks_of_job > 1 and not (plan.launcher.hosts_apart or config.program)
    if meets_here and (problem := loopback_problem()):
        raise ConfigError(f"launcher={plan.launcher.name}: {problem}; ranks of one machine need it: ip link set lo up")
    for point in plan.points:
        containers.image_digest(point.config.container)
        plan.launcher.mpirun(point.config)
        point_checks.check_program(point.config)


def print_commands(plan: Plan) -> None:
    """Print the command of each point; of a user's program its own, filled."""
    for point in plan.points:
        hosts = plan.launcher.hosts(point.config)
        if program := point.config.program:
            names = hosts[: point.config.nodes] or ("localhost",) * point.config.nodes
            print(shlex.join(filled(program.command, placeholder_values(point.config, names, 0))))
            continue
        folder = (Run(point, 0).home / "r0").resolve()
        job = make_job(point.config, folder, hosts, plan.launcher.mpirun(point.config))
        print(shlex.join(plan.launcher.launch_command(job)))


def make_runs(runs: Sequence[Run], plan: Plan, force: bool, console: Console) -> int:
    """Make the runs and mirror their records; returns the exit status."""
    interruption = None
    failed: list[str] = []
    watchers = Watchers()
    with interrupts_raised():
        try:
            failed = run_all(runs, plan.launcher, force, console, [watchers.watch])
        except Interrupted as caught:
            interruption = caught
            text = f"interrupted by {caught}: what was measured is kept, the same command resumes from here"
            show_lines("", [text], console)
    show_lines(WARNING, watchers.finish(), console)
    track(runs, console)
    if interruption:
        return 128 + interruption.signal
    if doubts := program_launches.doubts(runs):
        show_lines(ERROR, ["\n".join(doubts)], console)
        return WRONG_INPUT
    if failed:
        show_lines(f"[red]{len(failed)} of {len(runs)} runs failed:[/red]", [", ".join(failed)], console)
        show_lines("", ["The same command runs only these again."], console)
        show_lines("It changes with the running times:", proposals_by_clock(plan.points), console)
    return 1 if failed else 0


def track(runs: Sequence[Run], console: Console) -> None:
    """Mirror the records that have no complete W&B run, after all measurements; upload them if configured."""
    config, homes = runs[0].point.config, {run.home for run in runs}
    folders = (folder for home in homes for generations in files.runs(home).values() for folder in generations)
    records = sorted(path for folder in folders if (path := folder / RECORD_NAME).exists())
    show_lines(WARNING, mirror_records(records, config.tracking), console)
    if config.tracking.sync or (config.tracking.name == "wandb" and config.tracking.mode == "online"):
        try:
            upload_runs(Path(config.results))
        except UploadError as error:
            show_lines(WARNING, [str(error)], console)


def run_all(
    planned: Sequence[Run], launcher: Launcher, force: bool, console: Console, watches: Sequence[Watch] = ()
) -> list[str]:
    """Make the runs that are not measured yet, or all with `force`; return the labels of those that failed.

    watches: as for `one_run.measure`, for every run.
    Raises Interrupted, and ConfigError as `one_run.measure` does.
    """
    queue, plan = Queue(planned, force), [run.name for run in planned]
    screen = Screen(console, queue)
    with screen.bottom_line():
        for run in queue:
            watch = screen.begin(run)
            if why := queue.skip_reason(run):
                screen.skip(run, why)
                with suppress(OSError):
                    ledger.append(run.home, ledger.Line("skip", run.repeat, reason=why))
                continue
            if force:  # it begins again, and does not resume from a checkpoint of an earlier generation
                shutil.rmtree(files.checkpoints(files.run_folder(run.home, run.repeat, 1)), ignore_errors=True)
            throttling = affinity.throttling()
            record, problem = attempt(run, launcher, [watch, *watches], queue.rounds(run), plan)
            show_lines(WARNING, filter(None, [affinity.throttling_note(throttling)]), console)
            queue.add(run, record, problem)
            screen.end(run, record, problem)
    typed = shlex.split(os.environ.get(protocol.TYPED_COMMAND, ""))
    command = typed or [sys.executable, "-m", "train.launch", *sys.argv[1:]]
    if last := screen.less_precise(command):
        if path := os.environ.get(LAST_LINES):
            with open(path, "a", encoding="utf-8") as file:
                print(*map(printable.escaped, last), sep="\n", file=file)
        else:
            show_lines("", ["", *last], console)
    return queue.failed
