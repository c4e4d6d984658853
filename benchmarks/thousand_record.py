"""The record of 1,024 ranks with 1,000 steps each: written, read, drawn and audited.

    python -m benchmarks.thousand_record [--ranks 1024] [--steps 1000] [--cpu]

The parts are simulated; the real code reads them. docs/clusters.md has the conclusions.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TypeVar

import numpy as np

from analysis import audit
from analysis.figures import registry
from analysis.figures.figure_files import draw
from analysis.study import Study
from benchmarks.common import options
from record import parts, protocol, recorded_config
from record import run_files as files
from record.parts import JobEnd, PartWriter, assemble
from record.schema import RECORD_NAME, RunRecord, Usage, dumps
from tests.helpers.launched import measured
from tests.helpers.noisy_records import identity
from tests.helpers.run_records import make_record

RANKS_PER_NODE = 4
STARTED_AT = 1_764_000_000.0
STEP_S = 0.1
PHASES_S = {"start": 2.0, "import": 8.0, "init": 3.0, "data": 0.1, "build": 4.0, "broadcast": 1.0, "first_step": 20.0}

T = TypeVar("T")


def stage(name: str, do: Callable[[], T]) -> T:
    """Return the result of `do`, and print how long it took."""
    began = time.perf_counter()
    result = do()
    print(f"{name}: {time.perf_counter() - began:.2f} s")
    return result


def example(ranks: int, steps: int, computes: bool) -> RunRecord:
    """Return a record with times of its ranks; computes: on CPUs, which say when they had computed."""
    rng = np.random.default_rng(1024)
    run = make_record(nodes=ranks // RANKS_PER_NODE, ranks_per_node=RANKS_PER_NODE, steps=steps, warm_up_steps=10)
    run.config["measure"] |= {"epochs": 0, "budget_s": 300}
    run.config |= {"rounds": [], "rank_groups": [], "allreduce_sweep": None}
    run.config_hash = recorded_config.values_hash(run.config)
    together = STEP_S * (1 + rng.exponential(0.03, steps + 10))  # on all ranks
    for rank in run.ranks:
        rank.host, rank.cores = f"node{rank.node:04d}", [2 * rank.local_rank, 2 * rank.local_rank + 1]
        warm_up, timed = np.split(together + rng.uniform(0, 1e-4, together.size), [10])
        rank.warm_up_step_times_s, rank.step_times_s = warm_up.tolist(), timed.tolist()
        rank.compute_times_s = (timed * rng.uniform(0.8, 0.95, timed.size)).tolist() if computes else []
        phases = {name: mean * (1 + float(rng.exponential(0.05))) for name, mean in PHASES_S.items()}
        rank.phases_s = phases | {"warm_up": float(warm_up.sum()) + 0.05, "timed": float(timed.sum()) + 0.02}
        seconds = range(int(timed.sum()))
        fraction, memory_bytes = (None, None) if computes else (0.97, 17_000_000_000 + rank.rank)
        rank.usage = Usage(
            [round(40.0 + at, 3) for at in seconds], [round(1.9 * at, 2) for at in seconds], [3 * 2**30] * len(seconds),
            [fraction] * len(seconds), [memory_bytes] * len(seconds),
        )  # fmt: skip
    assert run.environment
    [host] = run.environment.hosts
    run.environment.hosts = [replace(host, host=name) for name in dict.fromkeys(rank.host for rank in run.ranks)]
    run.losses = rng.uniform(1, 7, steps).round(6).tolist()
    return run


def write_parts(folder: Path, run: RunRecord) -> None:
    """Write the parts of all ranks of a run, up to its evaluation."""
    for rank in run.ranks:
        path = protocol.part_path(folder, rank.rank, rank.host, 10_000 + rank.rank)
        writer = PartWriter(path, rank=rank.rank, host=rank.host, began_at=STARTED_AT + rank.phases_s["start"])
        before = {name: rank.phases_s[name] for name in [*PHASES_S, "warm_up"]}
        first = {"environment": run.environment, "losses": run.losses} if rank.rank == 0 else {}
        writer.add(phase="timed", phases_s=before, **first)
        writer.add(phase="evaluate", phases_s={"timed": rank.phases_s["timed"]}, finished=True, **measured(rank))


def assembled(folder: Path, run: RunRecord) -> bytes:
    """Return the text of the record that the launcher assembles from the parts in a folder."""
    rank_parts = [*parts.read_parts(folder).values()]
    job_s = max(sum(part.phases_s.values()) for part in rank_parts) + 1.0
    return dumps(assemble(rank_parts, identity(run), JobEnd(STARTED_AT, job_s, cores_shared=False)))


def profile_record(results: Path, run: RunRecord) -> None:
    """Print the time of each stage from the parts to the record, and of its analysis."""
    folder = files.run_folder(files.point_folder(results, run.experiment, run.point, run.config_hash), 0, 1)
    folder.mkdir(parents=True)
    write_parts(folder, run)
    text = stage("parts -> record (goal: 10 s)", lambda: assembled(folder, run))
    stage("record written", lambda: files.write_file(folder / RECORD_NAME, text))
    study = Study(results)
    stage("record read and checked (goal: 3 s)", lambda: study.local)
    if study.notices:
        sys.exit(str(study.notices[0]))
    stage("audited", lambda: audit.record_findings(study))
    figures = [entry for entry in registry.figures(study.local).values() if entry.published is None]
    stage("its figures drawn", lambda: draw(figures, study, results / "figures", lambda _: None))


def main() -> None:
    parser = options("thousand_record", __doc__, ranks=(1024, "of the job"), steps=(1000, "of each rank"))
    parser.add_argument("--cpu", action="store_true", help="ranks on CPUs: they also say when they had computed")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        profile_record(Path(folder), example(arguments.ranks, arguments.steps, arguments.cpu))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
