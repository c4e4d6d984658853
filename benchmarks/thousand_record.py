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
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from analysis import audit
from analysis.figures import registry
from analysis.figures.files import draw
from analysis.study import Study
from benchmarks.common import Rng, options, show
from tests.helpers.run_records import make_record
from train.launch.supervise import presence
from train.record import files, parts, progress, protocol, recorded_config
from train.record.files import write_once
from train.record.parts import Identity, JobEnd, assemble
from train.record.record import RECORD_NAME, RunRecord, dumps, find

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


def host_of(node: int) -> str:
    return f"node{node:04d}"


def fields_of(rng: Rng, rank: int, together: np.ndarray, computes: bool) -> list[dict[str, Any]]:
    """Return what a rank adds to its part, phase by phase. `together`: the time of the steps on all ranks [s]."""
    node, local = divmod(rank, RANKS_PER_NODE)
    warm_up, timed = np.split(together + rng.uniform(0, 1e-4, together.size), [10])
    phases = {name: mean * (1 + float(rng.exponential(0.05))) for name, mean in PHASES_S.items()}
    phases["warm_up"] = float(warm_up.sum()) + 0.05
    seconds = int(timed.sum())
    begun = {"rank": rank, "local_rank": local, "node": node, "host": host_of(node)}
    begun |= {"cores": [2 * local, 2 * local + 1]}
    begun |= {"began_at": STARTED_AT + phases["start"], "phase": "timed", "phases_s": phases}
    begun |= {"warm_up_step_times_s": warm_up.tolist()}
    measured: dict[str, Any] = {"step_times_s": timed.tolist(), "peak_memory_bytes": 3 * 2**30 + rank}
    if computes:
        measured["compute_times_s"] = (timed * rng.uniform(0.8, 0.95, timed.size)).tolist()
    gpu = (None, None) if computes else (0.97, 17_000_000_000 + rank)
    measured["samples"] = [[round(40.0 + at, 3), round(1.9 * at, 2), 3 * 2**30 + rank, *gpu] for at in range(seconds)]
    ended = {"phase": "evaluate", "finished": True, "phases_s": {"timed": float(timed.sum()) + 0.02, "evaluate": 0.01}}
    return [begun, measured | ended]


def write_parts(folder: Path, ranks: int, steps: int, computes: bool) -> None:
    """Write the parts of all ranks."""
    rng = np.random.default_rng(SEED)
    together = STEP_S * (1 + rng.exponential(0.03, steps + 10))
    environment = asdict(example(ranks, steps).environment)  # type: ignore[call-overload]
    environment["hosts"] = [
        environment["hosts"][0] | {"host": host_of(node)} for node in range(ranks // RANKS_PER_NODE)
    ]
    for rank in range(ranks):
        additions = fields_of(rng, rank, together, computes)
        if rank == 0:
            additions[0]["environment"] = environment
            additions[1]["losses"] = rng.uniform(1, 7, steps).round(6).tolist()
        path = protocol.part_path(folder, rank, additions[0]["host"], 10_000 + rank)
        writer = parts.PartWriter(path)
        for fields in additions:
            writer.add(**fields)


def example(ranks: int, steps: int) -> RunRecord:
    """Return a record of the same point with two steps, which has the configuration."""
    example_run = make_record(
        nodes=ranks // RANKS_PER_NODE, ranks_per_node=RANKS_PER_NODE, steps=2, **{"measure.timed_steps": steps}
    )
    example_run.config["measure"] |= {"epochs": 0, "warm_up_steps": 10, "budget_s": 300}
    example_run.config |= {"rounds": [], "rank_groups": [], "allreduce_sweep": None}
    example_run.config_hash = recorded_config.values_hash(example_run.config)
    return example_run


def assembled(folder: Path, ranks: int, steps: int) -> bytes:
    """Return the text of the record that the launcher assembles from the parts in a folder."""
    example_run = example(ranks, steps)
    identity = Identity(**{name: getattr(example_run, name) for name in Identity.__dataclass_fields__})
    rank_parts = parts.read(folder)
    job_s = max(sum(part.phases_s.values()) for part in rank_parts) + 1.0
    return dumps(assemble(rank_parts, identity, JobEnd(STARTED_AT, job_s, cores_shared=False)))


def profile_record(stages: Stages, home: Path, ranks: int, steps: int, computes: bool) -> None:
    """Time the stages from the parts to the record, and its analysis."""
    folder = files.run_folder(home, 0, 1)
    folder.mkdir(parents=True)
    write_parts(folder, ranks, steps, computes)
    in_progress(stages, folder, ranks, steps)
    text = stages.time(
        "parts -> record",
        lambda: assembled(folder, ranks, steps),
        lambda text: f"{len(text) / 2**20:.1f} MiB (at most 20)",
    )
    stages.time("record written", lambda: write_once(folder / RECORD_NAME, text))
    results = home.parents[2]
    assert find(results)
    study = Study(results)
    stages.time("record read and checked", lambda: study.local, lambda table: f"{len(table)} rows")
    if study.notices:
        sys.exit(str(study.notices[0]))
    stages.time("audited", lambda: audit.record_findings(study), lambda findings: f"{len(findings)} findings")
    figures = [entry for entry in registry.figures(study.local).values() if entry.published is None]
    stages.time("its figures drawn", lambda: draw(figures, study, results / "figures"))


def in_progress(stages: Stages, folder: Path, ranks: int, steps: int) -> None:
    """Time the progress line and `make status`, as during the run."""
    example_run = example(ranks, steps)
    protocol.write_assignment(
        folder, protocol.Assignment(example_run.config, example_run.config_hash, 0, {}, True, False)
    )
    follower = progress.Follower(folder)
    stages.time(
        "progress line, first look",
        lambda: progress.run_progress(follower, example_run.config),
        lambda state: state.phase if state else "",
    )
    stages.time("progress line, next look", lambda: progress.run_progress(follower, example_run.config))
    stages.time("parts of all ranks, first look", follower.parts, lambda by_rank: f"{len(by_rank)} ranks")
    stages.time("parts of all ranks, next look", follower.parts)
    presence.begin(folder)
    command = [sys.executable, "-m", "train.launch.status", str(folder.parents[3])]
    stages.time(
        "make status", lambda: subprocess.run(command, check=True, capture_output=True, text=True).stdout,
        lambda output: output.splitlines()[-1][:60],
    )  # fmt: skip
    presence.end(folder)


def main() -> None:
    parser = options("thousand_record", __doc__, ranks=(1024, "of the job"), steps=(1000, "of each rank"))
    parser.add_argument("--cpu", action="store_true", help="ranks on CPUs: they also say when they had computed")
    arguments = parser.parse_args()
    stages = Stages()
    example_run = example(arguments.ranks, arguments.steps)
    with tempfile.TemporaryDirectory() as folder:
        home = files.point_folder(
            Path(folder) / "results", example_run.experiment, example_run.point, example_run.config_hash
        )
        profile_record(stages, home, arguments.ranks, arguments.steps, arguments.cpu)
    show(stages.rows, ["stage", "time", "goal", "what"])
    print(f"\npeak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
