"""The record of 1,024 ranks with 1,000 steps each: written, read, drawn and audited.

    python -m benchmarks.thousand_record [--ranks 1024] [--steps 1000]

The parts are simulated; the real code reads them. docs/clusters.md has the conclusions.
"""

from __future__ import annotations

import resource
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

from analysis import audit
from analysis.figures import registry
from analysis.figures.figure_files import draw
from analysis.study import Study
from benchmarks.common import T, options
from record import parts
from record import run_files as files
from record.parts import JobEnd, assemble
from record.schema import RECORD_NAME, RunRecord, Usage, dumps
from tests.helpers import launched, noisy_records

STARTED_AT, STEP_S = 1_764_000_000.0, 0.1


def stage(name: str, do: Callable[[], T]) -> T:
    """Return the result of `do`, and print how long it took."""
    began = time.perf_counter()
    result = do()
    print(f"{name}: {time.perf_counter() - began:.2f} s")
    return result


def example(ranks: int, steps: int) -> RunRecord:
    """Return a record of ranks on the CPUs of separate nodes, with a sample of usage each second."""
    run = noisy_records.launch(np.random.default_rng(1024), nodes=ranks, step_s=STEP_S, steps=steps)
    for rank in run.ranks:
        count = int(rank.phases_s["timed"])
        rank.usage = Usage(
            [round(40.0 + at, 3) for at in range(count)], [round(1.9 * at, 2) for at in range(count)],
            [3 * 2**30] * count, [None] * count, [None] * count,
        )  # fmt: skip
        rank.host = f"node{rank.node:04d}"
    return run


def assembled(folder: Path, run: RunRecord) -> bytes:
    """Return the text of the record that the launcher assembles from the parts in a folder."""
    rank_parts = [*parts.read_parts(folder).values()]
    keys = ("experiment", "point", "repeat", "generation", "config", "config_hash", "command", "learning_rate", "swept")
    identity = {name: getattr(run, name) for name in keys}
    job_s = max(sum(part.phases_s.values()) for part in rank_parts) + 1.0
    return dumps(assemble(rank_parts, identity, JobEnd(STARTED_AT, job_s, cores_shared=False)))


def profile_record(results: Path, run: RunRecord) -> None:
    """Print the time of each stage from the parts to the record, and of its analysis."""
    folder = files.run_folder(files.point_folder(results, run.experiment, run.point, run.config_hash), 0, 1)
    folder.mkdir(parents=True)
    launched.write_parts(folder, run)
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
    numbers = {"ranks": (1024, "of the job"), "steps": (1000, "of each rank")}
    arguments = options("thousand_record", __doc__, **numbers).parse_args()
    with tempfile.TemporaryDirectory() as folder:
        profile_record(Path(folder), example(arguments.ranks, arguments.steps))
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")


if __name__ == "__main__":
    main()
