"""The record of 1,024 ranks with 1,000 steps each: written, read, drawn and audited; and the progress of its run.

    python -m benchmarks.thousand_record [--ranks 1024] [--steps 1000] [--cpu]

The parts are simulated; the real code reads them. docs/clusters.md has the conclusions.
"""

from __future__ import annotations

import resource
import subprocess
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
from analysis.figures.files import draw
from analysis.study import Study
from benchmarks.common import options, show
from record import parts, progress, protocol, recorded_config
from record import run_files as files
from record.parts import JobEnd, PartWriter, assemble
from record.run_files import write_once
from record.schema import RECORD_NAME, RunRecord, Usage, dumps
from tests.helpers.launched import measured
from tests.helpers.noisy_records import identity
from tests.helpers.run_records import make_record
from train.launch.supervise import presence

SEED = 1024
RANKS_PER_NODE = 4
STARTED_AT = 1_764_000_000.0
STEP_S = 0.1
PHASES_S = {"start": 2.0, "import": 8.0, "init": 3.0, "data": 0.1, "build": 4.0, "broadcast": 1.0, "first_step": 20.0}
GOALS = {"parts -> record": "10 s", "record read and checked": "3 s"}

T = TypeVar("T")


class Stages:
    """The stages so far, each with its time."""

    def __init__(self) -> None:
        """Begin without a stage."""
        self.rows: list[list[str]] = []

    def time(self, name: str, do: Callable[[], T], describe: Callable[[T], str] = lambda _: "") -> T:
        """Call `do`, add a row with its time and the description of its result, and return the result."""
        began = time.perf_counter()
        result = do()
        self.rows.append([name, f"{time.perf_counter() - began:.2f} s", GOALS.get(name, ""), describe(result)])
        print(f"{name}: {self.rows[-1][1]} {self.rows[-1][3]}", file=sys.stderr)
        return result


def example(ranks: int, steps: int, computes: bool) -> RunRecord:
    """Return a record with times of its ranks; computes: on CPUs, which say when they had computed."""
    rng = np.random.default_rng(SEED)
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
    rank_parts = parts.read_parts(folder)
    job_s = max(sum(part.phases_s.values()) for part in rank_parts) + 1.0
    return dumps(assemble(rank_parts, identity(run), JobEnd(STARTED_AT, job_s, cores_shared=False)))


def profile_record(stages: Stages, home: Path, run: RunRecord) -> None:
    """Time the stages from the parts to the record, and its analysis."""
    folder = files.run_folder(home, 0, 1)
    folder.mkdir(parents=True)
    write_parts(folder, run)
    in_progress(stages, folder, run)
    text = stages.time("parts -> record", lambda: assembled(folder, run), lambda text: f"{len(text) / 2**20:.1f} MiB")
    stages.time("record written", lambda: write_once(folder / RECORD_NAME, text))
    results = home.parents[2]
    study = Study(results)
    stages.time("record read and checked", lambda: study.local, lambda table: f"{len(table)} rows")
    if study.notices:
        sys.exit(str(study.notices[0]))
    stages.time("audited", lambda: audit.record_findings(study), lambda findings: f"{len(findings)} findings")
    figures = [entry for entry in registry.figures(study.local).values() if entry.published is None]
    stages.time("its figures drawn", lambda: draw(figures, study, results / "figures", lambda _: None))


def in_progress(stages: Stages, folder: Path, run: RunRecord) -> None:
    """Time the progress line and `make status`, as during the run."""
    protocol.write_assignment(folder, protocol.Assignment(run.config, run.config_hash, 0, {}, True, False))
    follower = progress.Follower(folder)
    for look in ("first", "next"):
        stages.time(f"progress line, {look} look", lambda: progress.run_progress(follower, run.config))
        stages.time(f"parts of all ranks, {look} look", follower.parts, lambda by_rank: f"{len(by_rank)} ranks")
    presence.note_begin(folder)
    command = [sys.executable, "-m", "train.launch.status", str(folder.parents[3])]
    stages.time(
        "make status", lambda: subprocess.run(command, check=True, capture_output=True, text=True).stdout,
        lambda output: output.splitlines()[-1][:60],
    )  # fmt: skip
    presence.note_end(folder)


def main() -> None:
    parser = options("thousand_record", __doc__, ranks=(1024, "of the job"), steps=(1000, "of each rank"))
    parser.add_argument("--cpu", action="store_true", help="ranks on CPUs: they also say when they had computed")
    arguments = parser.parse_args()
    stages, run = Stages(), example(arguments.ranks, arguments.steps, arguments.cpu)
    with tempfile.TemporaryDirectory() as folder:
        profile_record(stages, files.point_folder(Path(folder), run.experiment, run.point, run.config_hash), run)
    show(stages.rows, ["stage", "time", "goal", "what"])
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
