"""Submit the runs of an experiment that are still to be made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape

from train.config.checks import ConfigError
from train.launch.batch import submitted
from train.launch.batch.jobs import Planned, cost, jobs
from train.launch.batch.launcher import BatchLauncher
from train.launch.plan.options import Options
from train.launch.plan.runs import Known, Run, remaining


def submit(planned: Sequence[Run], launcher: BatchLauncher, options: Options, console: Console) -> None:
    """Show the cost and submit, or print the batch scripts.

    Raises ConfigError where the batch system refuses, or has these runs in its queue already, and OSError.
    """
    to_do, known = remaining(planned, options.force)
    if skipped := len(planned) - len(to_do):
        console.print(f"{skipped} of {len(planned)} runs are measured already; FORCE=1 measures again")
    if not to_do:
        console.print("nothing to submit; `make figures` draws what was measured")
        return
    wanted = jobs(to_do, known, options)
    _show_cost(wanted, known, launcher, console)
    if options.dry_run:
        for of_runs in wanted:
            print(launcher.script(of_runs.job))
        return
    _refuse_duplicates(to_do, launcher)
    for of_runs in wanted:
        job_id = _submit_one(of_runs, launcher)
        console.print(f"submitted job {job_id} ({of_runs.job.name}); `make status` shows its state")


def _show_cost(wanted: Sequence[Planned], known: Known, launcher: BatchLauncher, console: Console) -> None:
    system = wanted[0].job.system
    if system.remark:
        console.print(f"[yellow]system={system.name}:[/yellow] {escape(system.remark)}", highlight=False)
    for of_runs in wanted:
        console.print(cost(of_runs, known), highlight=False)
        if of_runs.estimate_s > of_runs.job.limit_s - launcher.warns_before_s:
            console.print(
                "[yellow]warning:[/yellow] it will not end within its time limit; what it measured is kept, and the "
                "same command submits the rest",
                highlight=False,
            )


def _refuse_duplicates(to_do: Sequence[Run], launcher: BatchLauncher) -> None:
    results = Path(to_do[0].point.config.results)
    waiting = submitted.states_of_points(submitted.read(results, launcher.name), launcher.queue())
    names = sorted({run.point.name for run in to_do if run.home in waiting})
    if names:
        raise ConfigError(
            f"{', '.join(names)}: a job that will run this is in the queue; `make status` shows it; cancel it, or wait"
        )


def _submit_one(of_runs: Planned, launcher: BatchLauncher) -> str:
    """Write the script, submit it, and keep beside it what it runs; returns the id of the job."""
    job = of_runs.job
    job.folder.mkdir(parents=True, exist_ok=True)
    script = job.folder / f"{job.name}.sh"
    script.write_text(launcher.script(job))
    job_id = launcher.submit(script)
    homes = dict.fromkeys(str(run.home) for run in of_runs.runs)
    repeats = max(run.point.config.measure.repeats for run in of_runs.runs)
    submitted.keep(job.folder, submitted.Submitted(job_id, job.nodes, repeats, list(homes)))
    return job_id
