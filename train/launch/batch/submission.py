"""Submit the runs of an experiment that are still to be made, and keep beside the scripts what was submitted.

The jobs are in results/<experiment>/<launcher>/<job id>.json.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import msgspec
from rich.console import Console
from rich.markup import escape

from train.config.checks import ConfigError
from train.launch.batch.jobs import Planned, cost, jobs
from train.launch.launchers.batch import RUNNING, BatchLauncher
from train.launch.plan.make import Options
from train.launch.plan.runs import Known, Run, remaining
from train.record import files


@dataclass(frozen=True)
class Submitted:
    """One job that was submitted."""

    job_id: str
    nodes: int
    repeats: int
    homes: list[str]  # the folders of the points that it runs


def keep(folder: Path, job: Submitted) -> None:
    """Write the job into the folder. Raises OSError."""
    files.write_whole(folder / f"{job.job_id}.json", json.dumps(asdict(job)).encode())


def read(results: Path, launcher: str) -> list[Submitted]:
    """Return every job that a launcher submitted for records below `results`. Names a file that is none on stderr."""
    jobs = []
    for path in sorted(results.glob(f"*/{launcher}/*.json")):
        try:
            jobs.append(msgspec.json.decode(path.read_bytes(), type=Submitted))
        except (OSError, msgspec.DecodeError, UnicodeError, RecursionError) as error:
            print(f"warning: {path}: no job of a launch: {error}; it is left out", file=sys.stderr)
    return jobs


def states_of_points(jobs: Sequence[Submitted], queue: Mapping[str, str]) -> dict[Path, str]:
    """Return the state of each point that a job in the queue will run; RUNNING where one of its jobs runs.

    queue: job id -> state, of the jobs that the batch system still has.
    """
    states: dict[Path, str] = {}
    for job in jobs:
        if (state := queue.get(job.job_id)) is not None:
            for home in map(Path, job.homes):
                if states.get(home) != RUNNING:
                    states[home] = state
    return states


def submit(planned: Sequence[Run], launcher: BatchLauncher, options: Options, console: Console) -> None:
    """Show the cost and submit, or print the batch scripts.

    Raises ConfigError where the batch system refuses, or has these runs in its queue already, and OSError.
    """
    to_do, durations = remaining(planned, options.force)
    if skipped := len(planned) - len(to_do):
        console.print(f"{skipped} of {len(planned)} runs are measured already; FORCE=1 measures again")
    if not to_do:
        console.print("nothing to submit; `make figures` draws what was measured")
        return
    wanted = jobs(to_do, durations, options)
    _show_cost(wanted, durations, launcher, console)
    if options.dry_run:
        for planned_job in wanted:
            print(launcher.script(planned_job.job))
        return
    _refuse_duplicates(to_do, launcher)
    for planned_job in wanted:
        job_id = _submit_one(planned_job, launcher)
        console.print(f"submitted job {job_id} ({planned_job.job.name}); `make status` shows its state")


def _show_cost(wanted: Sequence[Planned], durations: Known, launcher: BatchLauncher, console: Console) -> None:
    system = wanted[0].job.system
    if system.remark:
        console.print(f"[yellow]system={system.name}:[/yellow] {escape(system.remark)}", highlight=False)
    for planned_job in wanted:
        console.print(cost(planned_job, durations), highlight=False)
        if planned_job.estimate_s > planned_job.job.limit_s - launcher.warns_before_s:
            console.print(
                "[yellow]warning:[/yellow] it will not end within its time limit; what it measured is kept, and the "
                "same command submits the rest",
                highlight=False,
            )


def _refuse_duplicates(to_do: Sequence[Run], launcher: BatchLauncher) -> None:
    results = Path(to_do[0].point.config.results)
    waiting = states_of_points(read(results, launcher.name), launcher.queue())
    names = sorted({run.point.name for run in to_do if run.home in waiting})
    if names:
        raise ConfigError(
            f"{', '.join(names)}: a job that will run this is in the queue; `make status` shows it; cancel it, or wait"
        )


def _submit_one(planned_job: Planned, launcher: BatchLauncher) -> str:
    """Write the script, submit it, and keep beside it what it runs; returns the id of the job."""
    job = planned_job.job
    job.folder.mkdir(parents=True, exist_ok=True)
    script = job.folder / f"{job.name}.sh"
    script.write_text(launcher.script(job))
    job_id = launcher.submit(script)
    homes = dict.fromkeys(str(run.home) for run in planned_job.runs)
    repeats = max(run.point.config.measure.repeats for run in planned_job.runs)
    keep(job.folder, Submitted(job_id, job.nodes, repeats, list(homes)))
    return job_id
