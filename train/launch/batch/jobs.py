"""From the runs that are still to be made to batch jobs, with their time limits and cost: pure functions."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from train.config.schema import RunConfig
from train.launch.launchers.batch import BatchJob, clock
from train.launch.plan.make import Options
from train.launch.plan.runs import Known, Run, expected_s

# A job that ends early costs nothing, one that is cut off waits in the queue again.
_MARGIN, _MARGIN_S = 2, 600


@dataclass(frozen=True)
class Planned:
    """A job and the runs that it will make."""

    job: BatchJob
    runs: tuple[Run, ...]
    estimate_s: float


def jobs_folder(home: Path, launcher: str) -> Path:
    """Return the folder of the scripts, logs and jobs of an experiment. home: of one of its points."""
    return home.parents[1].resolve() / launcher


def time_limit_s(config: RunConfig, estimate_s: float) -> int:
    """Return how long a job may last: as configured, else twice the estimate and ten minutes, at most the site's."""
    asked = config.launcher.time_limit_s or math.ceil(_MARGIN * estimate_s + _MARGIN_S)
    return min(asked, config.system.longest_s or asked)


def jobs(to_do: Sequence[Run], durations: Known, options: Options) -> list[Planned]:
    """Return the jobs that make these runs: one for all, or with launcher.split one for each point."""
    if not to_do:
        return []
    config = to_do[0].point.config
    command = [sys.executable, "-m", "train.launch", *(["--force"] if options.force else []), *options.overrides]
    # The cores of a node, once durations, are the same for all jobs of the experiment, and inside them.
    cores = f"system.cores_per_node={config.system.cores_per_node}"
    command += [cores] if cores not in options.overrides else []
    if not config.launcher.split:
        return [_job(to_do, durations, [*command, *(["--only", options.only] if options.only else [])])]
    names = dict.fromkeys(run.point.name for run in to_do)
    by_point = {name: [run for run in to_do if run.point.name == name] for name in names}
    return [_job(runs, durations, [*command, "--only", name]) for name, runs in by_point.items()]


def _job(runs: Sequence[Run], durations: Known, command: Sequence[str]) -> Planned:
    configs = [run.point.config for run in runs]
    largest = max(configs, key=lambda config: config.all_nodes)
    estimate_s = sum(expected_s(run, durations) or largest.launcher.assumed_run_s for run in runs)
    ranks_per_node = max(config.ranks_per_node for config in configs)
    points = {run.point.name for run in runs}
    [name] = points if len(points) == 1 else [f"nodes{largest.all_nodes}"]
    job = BatchJob(
        name=f"{largest.experiment}-{name}",
        nodes=largest.all_nodes,
        ranks_per_node=ranks_per_node,
        cores_per_rank=max(1, (largest.system.cores_per_node or 1) // ranks_per_node),
        gpus_per_node=ranks_per_node if largest.device == "gpu" else 0,
        limit_s=time_limit_s(largest, estimate_s),
        folder=jobs_folder(runs[0].home, largest.launcher.name),
        system=largest.system,
        command=tuple(command),
    )
    return Planned(job, tuple(runs), estimate_s)


def idle_node_s(planned: Planned, durations: Known) -> float:
    """Node-seconds for which nodes of a job in rounds wait, while arms of fewer nodes measure: in equal windows."""
    idle = 0.0
    for run in planned.runs:
        arms = run.point.config.launch.rounds
        waiting = sum(run.point.config.nodes - arm.nodes for arm in arms) / max(1, len(arms))
        idle += waiting * (expected_s(run, durations) or 0.0)
    return idle


def separate_idle_node_s(planned: Planned, durations: Known) -> float:
    """Return the same for launches of single points, in the allocation that holds the largest: its other nodes wait."""
    singles = [run for run in planned.runs if not run.point.config.launch.rounds]
    wait = (planned.job.nodes - run.point.config.all_nodes for run in singles)
    assumed_s = planned.runs[0].point.config.launcher.assumed_run_s
    return sum(n * (expected_s(run, durations) or assumed_s) for n, run in zip(wait, singles, strict=True))


def cost(planned: Planned, durations: Known) -> str:
    """Return what a job will take, as text. durations: of earlier runs, which the estimate comes from."""
    measured = durations.count
    nodes = planned.job.nodes
    config = planned.runs[0].point.config
    source = (
        f"from {measured} earlier runs of this experiment"
        if measured
        else f"each run taken as {config.launcher.assumed_run_s} s (launcher.assumed_run_s): none was measured yet"
    )
    return (
        f"{planned.job.name}: {len(planned.runs)} runs on at most {nodes} nodes, about "
        f"{math.ceil(planned.estimate_s / 60)} min, {planned.estimate_s * nodes / 3600:.1f} node-hours, {source}; "
        f"time limit {clock(planned.job.limit_s)}{_idle(planned, durations)}"
    )


def _idle(planned: Planned, durations: Known) -> str:
    """Return how many of the node-hours nodes spend waiting, where points are measured in rounds; "" elsewhere."""
    in_rounds, separate = (
        node_seconds(planned, durations) / 3600 for node_seconds in (idle_node_s, separate_idle_node_s)
    )
    if not any(run.point.config.launch.rounds for run in planned.runs):
        return ""
    return (
        f"; nodes wait for {in_rounds:.1f} node-hours of it in rounds, while fewer measure, and for {separate:.1f} "
        "in launches of single points"
    )
