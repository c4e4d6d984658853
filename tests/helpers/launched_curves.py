"""Records of launches in rounds as the launcher writes them, with given speedups."""

import functools
from dataclasses import replace
from pathlib import Path

from record import run_files as files
from record.schema import RECORD_NAME, RunRecord, dumps, load
from tests.helpers.launch_plans import plan_points
from tests.helpers.run_records import make_rounds
from train.config.identity import resolved
from train.launch.plan import curve_design
from train.launch.plan.planned_runs import PlannedPoint, Run


@functools.cache
def _planned(*overrides: str) -> PlannedPoint:
    defaults = ["experiment=weak_scaling", "model=tiny", "nodes=2", "measure.budget_s=100"]
    [result] = curve_design.design(plan_points(*defaults, *overrides, cores=2), cores=2).curves
    return result


def curve(results: Path, *overrides: str) -> PlannedPoint:
    """Return the curve of a small model on two nodes, with a budget of 100 s."""
    point = _planned(*overrides)
    return replace(point, config=replace(point.config, results=str(results)))


def add(point: PlannedPoint, repeat: int, speedups: list[float], job_s: float = 30.0, **fields: object) -> RunRecord:
    """Write the record of a launch with a round of 5 s for each speedup, with and without allreduce; return it."""
    run = make_rounds([(0.5, 1 / speedup, 1 / speedup) for speedup in speedups])
    for rank in run.ranks:
        rank.phases_s = {"start": 4.0, "first_step": 6.0, "timed": 5.0 * len(speedups)}
    run.config, run.config_hash, run.point = resolved(point.config), point.config_hash, point.name
    run.started_at, run.environment = "2026-01-02T03:04:05+00:00", None
    folder, generation = files.new_run(Run(point, repeat).home, repeat)
    run = replace(run, repeat=repeat, generation=generation, job_s=job_s, **fields)
    files.write_file(folder / RECORD_NAME, dumps(run))
    return load(folder / RECORD_NAME)
