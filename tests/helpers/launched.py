"""Results with all that launches leave, of the times of real ones: run.json, files of ranks, records and ledgers."""

from __future__ import annotations

import dataclasses
import functools
import shutil
from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from analysis import verify
from analysis.finding import Finding
from record import ledger, parts, protocol, recorded_config
from record import run_files as files
from record import schema as record
from record.parts import JobEnd, PartWriter, assemble
from record.schema import PHASES, RECORD_NAME, Failure, Rank, RunRecord

_REAL = Path(__file__).parents[1] / "golden/results/launches/strategies"
_POINTS = {1: "tiny-nodes1-one-rank-alone", 2: "tiny-nodes2-horovod"}  # by nodes
PLAN = [(nodes, repeat) for repeat in range(3) for nodes in _POINTS]  # in the order of the launches


@functools.cache
def real(nodes: int, repeat: int) -> RunRecord:
    """Return the record of a real launch."""
    (path,) = _REAL.glob(f"{_POINTS[nodes]}/*/r{repeat}/{RECORD_NAME}")
    return record.load(path)


def home(results: Path, nodes: int = 2) -> Path:
    """Return the folder of a point."""
    run = real(nodes, 0)
    return files.point_folder(results, run.experiment, run.point, run.config_hash)


def names(plan: Sequence[tuple[int, int]] = PLAN) -> list[str]:
    """Return the names of the launches of a plan."""
    return ["/".join([*home(Path(), nodes).parts[-2:], f"r{repeat}"]) for nodes, repeat in plan]


def launch(
    results: Path,
    nodes: int = 1,
    repeat: int = 0,
    times_of: int | None = None,
    plan: Sequence[str] | None = None,
    ends: str = "complete",
) -> Path:
    """Make a launch, as the launcher does, with the times of a real one; return its folder.

    times_of: the repeat of the real one; None: the same.
    ends: complete, killed with its launcher, or interrupted in a phase.
    """
    like, plan = real(nodes, repeat if times_of is None else times_of), names() if plan is None else plan
    folder, generation = files.new_run(home(results, nodes), repeat)
    fields = ("experiment", "point", "command", "swept", "arm", "role", "order", "learning_rate", "arm_keys")
    identity = {name: getattr(like, name) for name in fields} | {"generation": generation}
    source, config = {"train/a.py": "12"}, {**like.config, "program": None}
    assignment = protocol.Assignment(
        config, like.config_hash, repeat, source, False, False, identity=identity, plan=list(plan),
        ledgers=ledger.states(folder.parents[2], (name.rpartition("/")[0] for name in plan)),
    )  # fmt: skip
    protocol.write_assignment(folder, assignment)
    line = ledger.begin(folder, repeat, generation, plan)
    write_parts(folder, like, ends)
    if ends == "killed":
        return folder
    failure = None if ends == "complete" else Failure("interrupted by SIGINT", phase=ends)
    assembled(folder, like, failure, line)
    ledger.end(folder, record.load(folder / RECORD_NAME))
    return folder


def write_parts(folder: Path, like: RunRecord, ends: str = "complete") -> None:
    """Write the files of the ranks of a launch, with the times of this one."""
    last = PHASES.index(ends) if ends in PHASES else len(PHASES) - 1
    for rank in like.ranks:
        writer = PartWriter(protocol.part_path(folder, rank.rank, rank.host, 7), rank=rank.rank, host=rank.host)
        phases_s = {name: rank.phases_s[name] for name in PHASES[:last] if name in rank.phases_s}
        launched_at = datetime.fromisoformat(like.started_at).timestamp() - 0.6  # by the clocks of ranks
        writer.add(phases_s=phases_s, phase=PHASES[last], began_at=launched_at + rank.phases_s["start"])
        if ends == "complete":
            writer.add(**measured(rank), finished=True)
            if rank.rank == 0:
                writer.add(environment=like.environment, losses=like.losses, work=like.work, weights_differ=False)


def measured(rank: Rank) -> dict[str, object]:
    """Return what a rank adds to its file, beside its phases."""
    shared = {field.name for field in dataclasses.fields(Rank)} & {f.name for f in dataclasses.fields(parts.RankPart)}
    usage = vars(rank.usage).values() if rank.usage else ()
    values = {name: getattr(rank, name) for name in shared - {"phases_s", "rank", "host"}}
    values["step_times_s"] = [time_s + 1e-10 for time_s in rank.step_times_s]  # more digits than a record
    return values | {"samples": [*zip(*usage, strict=True)]}


def assembled(folder: Path, like: RunRecord, failure: Failure | None = None, line: str = "") -> None:
    """Write the record of a launch from the files in its folder, as its launcher does; `like` says how it ended."""
    by_file, assignment = parts.read_parts(folder), protocol.read_assignment(folder)
    end = JobEnd(
        started_at=datetime.fromisoformat(like.started_at).timestamp(),
        job_s=like.job_s,
        cores_shared=False,
        failure=failure,
        sources={path.name: files.digest(path) for path in (protocol.assignment_path(folder), *by_file)},
        ledger_line=line or like.ledger_line,
        ended_at=ledger.now(),
    )
    config = recorded_config.recorded(assignment.config)
    run = assemble([*by_file.values()], parts.identity(assignment, config), end)
    (folder / RECORD_NAME).write_bytes(record.dumps(run))


def results(folder: Path) -> Path:
    """Make all launches of the plan in a folder, and return it."""
    for nodes, repeat in PLAN:
        launch(folder, nodes, repeat)
    return folder


def verified(results: Path) -> verify.Verification:
    """Return what `verify` finds in a folder of results."""
    return verify.verify(verify.on_disk(str(path) for path in record.find(results)))


def check(findings: Sequence[Finding], *texts: str) -> None:
    """Assert that each finding has the words of one text (parts: ` / `) in all but its place, and a listed rule."""
    assert {each.rule for each in findings} <= {*verify.RULES, verify.UNREADABLE}
    lines = [f" {each.rule} {each.severity} {each.stated}; {each.follows}; {each.meaning}" for each in findings]
    assert len(lines) == len(texts), lines
    for text in texts:
        line = next((line for line in lines if all(f" {part}" in line for part in text.split(" / "))), None)
        assert line is not None, (text, lines)
        lines.remove(line)


def drop(results: Path, *runs: str, nodes: int = 2) -> None:
    """Remove launches of a point with all that they left, or the point."""
    for run in runs or ("",):
        shutil.rmtree(home(results, nodes) / run)


def keep_lines(results: Path, *lines: slice, nodes: int = 2) -> None:
    """Keep only these lines of the ledger of a point."""
    path = home(results, nodes) / ledger.NAME
    before = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for part in lines for line in before[part]))
