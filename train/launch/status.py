"""What became of the experiments: each run done, running, queued, failed, or none of these.

python -m train.launch.status [results]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from train.config.schema import ConfigError
from train.launch.slurm import batch
from train.launch.slurm.batch import Submitted
from train.record import paths, record

STATES = ("done", "running", "queued", "failed", "to do")


def state_of(home: Path, repeat: int, job: str | None) -> str:
    """The state of one repeat of a point.

    job: in which state Slurm has a job that runs this point, None where it has none.
    """
    if paths.completed(home, repeat):
        return "done"
    last = paths.generations(home, repeat)[-1:]
    recorded = [(paths.run_folder(home, repeat, number) / record.RECORD_NAME).exists() for number in last]
    if job == "RUNNING":
        return "running" if recorded == [False] else "queued"
    if job:
        return "queued"
    return "failed" if last else "to do"


def of_jobs(jobs: Sequence[Submitted], in_queue: Mapping[str, str]) -> dict[Path, str]:
    """The points that a job in the queue will run, and the job's state; a running one counts before a pending one."""
    found: dict[Path, str] = {}
    for job in jobs:
        if (state := in_queue.get(job.job_id)) is not None:
            for home in job.homes:
                if found.get(Path(home)) != "RUNNING":
                    found[Path(home)] = state
    return found


def homes(results: Path) -> list[Path]:
    """The folders of all points that were begun below `results`."""
    return sorted({path.parent for path in results.glob("*/*/*/r*") if path.is_dir()})


def repeats_of(home: Path, planned: Mapping[str, int]) -> int:
    """How many repeats a point was to have: as planned by a job, else as many as it has."""
    there = [int(path.name[1:].partition(".")[0]) for path in home.glob("r*") if path.is_dir()]
    return max([planned.get(str(home), 0), *(number + 1 for number in there)])


def main() -> int:
    """Print the table."""
    parser = argparse.ArgumentParser(prog="python -m train.launch.status", description=__doc__.splitlines()[0])
    parser.add_argument("results", type=Path, nargs="?", default=Path("results"))
    results = parser.parse_args().results
    jobs = batch.submitted(results)
    try:
        in_queue = batch.states() if jobs else {}
    except ConfigError as error:
        print(f"warning: {error}; what is in the queue is not known", file=sys.stderr)
        in_queue = {}
    alive = of_jobs(jobs, in_queue)
    every = sorted({*homes(results), *(Path(home) for job in jobs for home in job.homes)})
    if not every:
        print(f"{results}: nothing was measured or submitted yet")
        return 0
    planned = {home: job.repeats for job in jobs for home in job.homes}
    table = Table(box=None, header_style="bold")
    for head in ("experiment", "point", "configuration"):
        table.add_column(head, no_wrap=True)
    for head in STATES:
        table.add_column(head, justify="right")
    total: Counter[str] = Counter()
    for home in every:
        states = Counter(state_of(home, n, alive.get(home)) for n in range(repeats_of(home, planned)))
        total += states
        table.add_row(home.parts[-3], home.parts[-2], home.name, *(str(states[s] or "") for s in STATES))
    table.add_row("", "all", "", *(str(total[s]) for s in STATES), style="bold")
    console = Console(soft_wrap=True)
    console.print(table)
    for job in jobs:
        if job.job_id in in_queue:
            console.print(f"job {job.job_id}: {in_queue[job.job_id]}, {job.nodes} nodes", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
