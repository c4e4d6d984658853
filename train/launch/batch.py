"""Batch systems: jobs for runs, with time limits and cost; their submission and their state in the queue.

The jobs that were submitted are kept in results/<experiment>/<launcher>/<job id>.json, beside their scripts.
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

import msgspec

from common import bounded_files as bounded
from common.grouping import gathered, grouped
from common.terminal import show
from record import run_files as files
from train.config.checks import ConfigError
from train.config.run_config import RunConfig
from train.launch.launchers.base import RUNNING, BatchJob, BatchLauncher, QueuedJob, clock
from train.launch.plan.make_plan import Options
from train.launch.plan.planned_runs import Durations, Run, estimate, remaining
from train.rank import placement

# A job that ends early costs nothing; one that reaches its limit waits in the queue again.
_MARGIN, _MARGIN_S = 2, 600


@dataclass(frozen=True)
class PlannedJob:
    """A job and the runs that it will make."""

    job: BatchJob
    runs: tuple[Run, ...]
    estimate_s: float


def time_limit_s(config: RunConfig, estimate_s: float) -> int:
    """Return how long a job may last: as configured, else twice the estimate and ten minutes, at most the site's."""
    limit_s = config.launcher.time_limit_s or math.ceil(_MARGIN * estimate_s + _MARGIN_S)
    return min(limit_s, config.system.longest_s or limit_s)


def jobs(to_do: Sequence[Run], durations: Durations, options: Options) -> list[PlannedJob]:
    """Return the jobs that make these runs: one for all, or with launcher.split one for each point."""
    config = to_do[0].point.config
    command = [sys.executable, "-m", "train.launch", *(["--force"] if options.force else []), *options.overrides]
    # The cores and GPUs of a node are the same for all jobs of the experiment, and inside them.
    node = [f"system.cores_per_node={config.system.cores_per_node}"]
    gpus = config.system.gpus_per_node if config.device == "gpu" else 0
    node += [f"system.gpus_per_node={gpus}"] if gpus else []
    command += [line for line in node if line not in options.overrides]
    if not config.launcher.split:
        return [_job(to_do, durations, [*command, *(["--only", options.only] if options.only else [])])]
    by_point = grouped(to_do, lambda run: run.point.name)
    return [_job(runs, durations, [*command, "--only", name]) for name, runs in by_point.items()]


def _job(runs: Sequence[Run], durations: Durations, command: Sequence[str]) -> PlannedJob:
    configs = [run.point.config for run in runs]
    largest = max(configs, key=lambda config: config.all_nodes)
    estimate_s = estimate(runs, durations).all_s
    ranks_per_node = max(config.ranks_per_node for config in configs)
    points = {run.point.name for run in runs}
    [name] = points if len(points) == 1 else [f"nodes{largest.all_nodes}"]
    job = BatchJob(
        name=f"{largest.experiment}-{name}",
        nodes=largest.all_nodes,
        ranks_per_node=ranks_per_node,
        cores_per_rank=placement.share(largest.system.cores_per_node or 1, ranks_per_node),
        gpus_per_node=ranks_per_node if largest.device == "gpu" else 0,
        limit_s=time_limit_s(largest, estimate_s),
        folder=runs[0].home.parents[1].resolve() / largest.launcher.name,  # of the experiment
        system=largest.system,
        command=tuple(command),
    )
    return PlannedJob(job, tuple(runs), estimate_s)


def idle_node_s(planned: PlannedJob, durations: Durations) -> tuple[float, float]:
    """Return the node-seconds for which nodes of a job wait: in rounds, and in launches of single points.

    In rounds they wait while smaller arms measure, in equal windows. A single point leaves the other nodes of the
    allocation idle.
    """
    in_rounds = separate = 0.0
    for run in planned.runs:
        config, seconds = run.point.config, estimate([run], durations).all_s
        if arms := config.launch.rounds:
            in_rounds += seconds * fmean(config.nodes - arm.nodes for arm in arms)
        else:
            separate += seconds * (planned.job.nodes - config.all_nodes)
    return in_rounds, separate


def cost(planned: PlannedJob, durations: Durations) -> str:
    """Return the expected time and cost of a job, as text. durations: of earlier runs, for the estimate."""
    nodes, assumed_s = planned.job.nodes, planned.runs[0].point.config.launcher.assumed_run_s
    source = f"each run taken as {assumed_s} s (launcher.assumed_run_s): none was measured yet"
    if durations.count:
        source = f"from {durations.count} earlier runs of this experiment"
    text = (
        f"{planned.job.name}: {len(planned.runs)} runs on at most {nodes} nodes, about "
        f"{math.ceil(planned.estimate_s / 60)} min, {planned.estimate_s * nodes / 3600:.1f} node-hours, {source}; "
        f"time limit {clock(planned.job.limit_s)}"
    )
    if any(run.point.config.launch.rounds for run in planned.runs):
        in_rounds, separate = (seconds / 3600 for seconds in idle_node_s(planned, durations))
        text += (
            f"; nodes wait for {in_rounds:.1f} node-hours of it in rounds, while fewer measure, and for "
            f"{separate:.1f} in launches of single points"
        )
    return text


@dataclass(frozen=True)
class Submission:
    """A job in the batch system."""

    job_id: str
    nodes: int
    runs: dict[str, list[int]]  # the folder of each point that it measures -> the repeats that it will make


def read_submissions(results: Path, launcher: str) -> list[Submission]:
    """Return every job that a launcher submitted for records below `results`; warns of files that are no job."""
    jobs = []
    for path in sorted(results.glob(f"*/{launcher}/*.json")):
        try:
            jobs.append(msgspec.json.decode(bounded.check_json(bounded.read(path)), type=Submission))
        except (OSError, ValueError) as error:
            show(f"warning: {path}: no job of a launch: {error}; it is left out", file=sys.stderr)
    return jobs


def states_of_points(jobs: Sequence[Submission], queue: Mapping[str, QueuedJob]) -> dict[Path, str]:
    """Return the state of each point that a job in the queue will run; RUNNING if one of its jobs runs.

    queue: the jobs that the batch system still has, by their ids.
    """
    states: dict[Path, str] = {}
    for job in jobs:
        if queued := queue.get(job.job_id):
            for home in map(Path, job.runs):
                if states.get(home) != RUNNING:
                    states[home] = queued.state
    return states


def submit(planned: Sequence[Run], launcher: BatchLauncher, options: Options) -> None:
    """Show the cost and submit, or print the batch scripts.

    Raises ConfigError if the batch system refuses, or has these runs in its queue already, and OSError.
    """
    to_do, durations = remaining(planned, options.force)
    if skipped := len(planned) - len(to_do):
        show(f"{skipped} of {len(planned)} runs are measured already; FORCE=1 measures again")
    if not to_do:
        show("nothing to submit; `make figures` draws what was measured")
        return
    planned_jobs = jobs(to_do, durations, options)
    _show_cost(planned_jobs, durations, launcher)
    if options.dry_run:
        for planned_job in planned_jobs:
            print(launcher.script(planned_job.job))
        return
    _refuse_duplicates(to_do, launcher)
    for planned_job in planned_jobs:
        job_id = _submit_one(planned_job, launcher)
        show(f"submitted job {job_id} ({planned_job.job.name}); `make status` shows its state")


def _show_cost(planned: Sequence[PlannedJob], durations: Durations, launcher: BatchLauncher) -> None:
    system = planned[0].job.system
    if system.remark:
        show(f"system={system.name}: {system.remark}")
    for planned_job in planned:
        show(cost(planned_job, durations))
        if planned_job.estimate_s > planned_job.job.limit_s - launcher.warns_before_s:
            show(
                "warning: it will not end within its time limit; what it measured is kept, and the "
                "same command submits the rest"
            )


def _refuse_duplicates(to_do: Sequence[Run], launcher: BatchLauncher) -> None:
    results = Path(to_do[0].point.config.results)
    waiting = states_of_points(read_submissions(results, launcher.name), launcher.queue())
    names = sorted({run.point.name for run in to_do if run.home in waiting})
    if names:
        raise ConfigError(
            f"{', '.join(names)}: a job that will run this is in the queue; `make status` shows it; cancel it, or wait"
        )


def _submit_one(planned_job: PlannedJob, launcher: BatchLauncher) -> str:
    """Write the script, submit it, and save the job beside it; returns the id of the job."""
    job = planned_job.job
    job.folder.mkdir(parents=True, exist_ok=True)
    script = job.folder / f"{job.name}.sh"
    script.write_text(launcher.script(job))
    job_id = launcher.submit(script)
    repeats = gathered((str(run.home), run.repeat) for run in planned_job.runs)
    submission = Submission(job_id, job.nodes, repeats)
    files.write_file(job.folder / f"{job_id}.json", msgspec.json.encode(submission), replace=True)
    return job_id
