"""Results with everything that launches leave: run.json, the files of ranks, records, and the ledger of each point."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tests.helpers.run_records import make_record
from train.record import files, ledger, parts, protocol, record
from train.record.parts import JobEnd, PartWriter, assemble
from train.record.record import RECORD_NAME, CoreUse, Failure, RunRecord

SOURCE = {"train/a.py": "12"}
PLAN = [(nodes, repeat) for repeat in range(3) for nodes in (1, 2)]  # nodes and repeat, in the order of the launches


def point_folder(results: Path, run: RunRecord) -> Path:
    return files.point_folder(results, run.experiment, run.point, run.config_hash)


def names(plan: Sequence[tuple[int, int]] = PLAN) -> list[str]:
    """Return the names of the launches of a plan."""
    runs = {nodes: make_record(nodes=nodes, steps=2) for nodes, _ in plan}
    return [f"{runs[nodes].point}/{runs[nodes].config_hash[:8]}/r{repeat}" for nodes, repeat in plan]


def launch(
    results: Path,
    nodes: int = 1,
    repeat: int = 0,
    step_s: float = 0.75,
    plan: Sequence[str] | None = None,
    ends: str = "complete",
) -> Path:
    """Make a launch, as the launcher does, up to an end: complete, interrupted, killed (its launcher too), no room.

    Returns its folder.
    """  # fmt: skip
    like, plan = make_record(nodes=nodes, repeat=repeat, steps=2), names() if plan is None else plan
    point = point_folder(results, like)
    folder, generation = files.new_run(point, repeat)
    config = {**like.config, "program": None}
    identity = {name: getattr(like, name) for name in ("experiment", "point", "command", "swept", "arm", "role")}
    identity |= {"learning_rate": like.learning_rate, "arm_keys": like.arm_keys, "generation": generation}
    assignment = protocol.Assignment(
        config, like.config_hash, repeat, SOURCE, False, False, identity=identity, plan=list(plan)
    )
    protocol.write_assignment(folder, assignment)
    line = ledger.begin(folder, repeat, generation, plan)
    for rank in range(nodes):
        writer = PartWriter(protocol.part_path(folder, rank, "host0", 7), rank=rank, host="host0", cores=[rank])
        writer.add(node=rank, local_rank=rank, phases_s={"start": 0.5, "import": 3.0, "init": 0.5}, phase="timed")
        if ends != "complete":
            continue
        steps = [step_s + repeat * 1e-3 + 1.3e-9, step_s]
        writer.add(phases_s={"warm_up": 1.0, "timed": sum(steps) + 1e-3}, step_times_s=steps)
        writer.add(timed_cores=CoreUse(1.5, 1.4, 1.4, 0.0), peak_memory_bytes=2**30, finished=True)
        if rank == 0:
            writer.add(environment=like.environment)
    if ends in ("killed", "no room"):
        return folder
    by_file = parts.by_file(folder)
    end = JobEnd(
        started_at=1_764_000_000.0 + 100 * repeat,
        job_s=12.0,
        cores_shared=False,
        failure=None if ends == "complete" else Failure("interrupted by SIGINT", phase="timed"),
        sources={path.name: files.digest(path) for path in (protocol.assignment_path(folder), *by_file)},
        ledger_line=line,
    )
    kept = {key: value for key, value in config.items() if key != "program"}
    run = assemble([*by_file.values()], parts.identity(assignment, kept), end)
    files.write_once(folder / RECORD_NAME, record.dumps(run))
    ledger.end(folder, repeat, generation, run.status)
    return folder


def results(folder: Path) -> Path:
    """Make all launches of the plan in a folder, and return it."""
    for nodes, repeat in PLAN:
        launch(folder, nodes, repeat)
    return folder
