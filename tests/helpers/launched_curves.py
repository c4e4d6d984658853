"""Records of launches in rounds as the launcher writes them, with given speedups."""

import functools
from dataclasses import replace
from pathlib import Path

from record import run_files as files
from record.run_files import write_file
from record.schema import RECORD_NAME, Rank, RunRecord, Window, dumps, load
from tests.helpers.bare_record import bare_record
from tests.helpers.launch_plans import plan_points
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
    first = [{0: 1.0, 1: 2.0 / speedup, 2: 2.0 / speedup} for speedup in speedups]
    second = [{1: times[1], 2: times[2]} for times in first]
    timed_s = 5.0 * len(speedups)
    record = bare_record(
        config=resolved(point.config),
        config_hash=point.config_hash,
        point=point.name,
        ranks=[_rank(0, first, timed_s), _rank(1, second, timed_s)],
        repeat=repeat,
        job_s=job_s,
        **fields,
    )
    folder, generation = files.new_run(Run(point, repeat).home, repeat)
    write_file(folder / RECORD_NAME, dumps(replace(record, generation=generation)))
    return load(folder / RECORD_NAME)


def _rank(number: int, times_s: list[dict[int, float]], timed_s: float) -> Rank:
    """Return a rank with windows of 2 steps. times_s: for each round, the time of each arm of this rank."""
    windows = [Window(i, arm, s, [s / 2] * 2) for i, arms in enumerate(times_s) for arm, s in arms.items()]
    phases_s = {"start": 4.0, "first_step": 6.0, "timed": timed_s}
    return Rank(number, number, number, "n", [number], None, phases_s, [], [], 0, windows=windows)
