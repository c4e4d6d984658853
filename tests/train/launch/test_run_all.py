"""The runs of an experiment whose ranks measure nothing. One that fails: tests/end_to_end/test_launch.py."""

from pathlib import Path

import pytest
from rich.console import Console

from analysis import verify
from record import parts, protocol
from record import run_files as files
from record.schema import PlanPosition, find
from tests.helpers.kit import records
from tests.helpers.launch_plans import make_plan
from tests.helpers.written_ranks import WrittenRanks
from train.config.checks import ConfigError
from train.config.identity import rebuild
from train.launch import execute, screen
from train.launch.plan import curve_design
from train.launch.plan.planned_runs import Run, runs_of
from train.launch.plan.queue import RoundsBudget
from train.launch.supervise import one_run

pytestmark = pytest.mark.slow  # starts processes

WEAK = ("experiment=weak_scaling", "model=tiny", "nodes=2", "measure.repeats=1")


@pytest.fixture
def runs(tmp_path: Path) -> list[Run]:
    plan = make_plan(*WEAK, f"results={tmp_path}")
    return runs_of(plan.points, plan.launcher)


def curve() -> Run:
    return curve_design.design(make_plan(*WEAK).points, cores=2).curves[0]


def run_all(runs: list[Run], force: bool = False) -> list[str]:
    return execute.run_all(runs, WrittenRanks(), force, Console(soft_wrap=True))


def test_each_run_leaves_a_record_of_its_assignment_and_another_if_forced(runs, tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(screen, "SHOW_EVERY_S", {True: 0.0, False: 0.0})  # in a log each report is a line
    checkpoints = [files.checkpoints(run.home / "r0") for run in runs]
    for folder in checkpoints:
        folder.mkdir(parents=True)
    assert run_all(runs) == []
    first, second = records(tmp_path)
    assert [record.status for record in (first, second)] == ["complete", "complete"]
    assert (second.swept, second.arm, second.arm_keys) == ({"model": "tiny", "nodes": 2}, None, [])
    assert second.config["derived"] == ["global_batch", "threads_per_rank"]
    assert second.learning_rate == second.config["optimizer"]["learning_rate"] * 2  # scaled linearly with two ranks
    assert second.source_digest == files.source_digest(files.source_files())
    assert {record.order.position for record in (first, second)} == {0, 1}
    assert first.order == PlanPosition(0, first.order.position, 2)
    assert "nodes=2" in second.command
    assert second.ranks[1].phases_s["exit"] == pytest.approx(second.job_s - 0.008)
    assert not any(folder.exists() for folder in checkpoints)
    assert verify.verify(verify.on_disk(map(str, find(tmp_path)))).findings == []
    assignment = protocol.read_assignment(runs[1].home / "r0")
    assert rebuild(assignment.config) == runs[1].point.config
    assert (assignment.hosts_apart, assignment.quotas, assignment.config_hash[:8]) == (False, False, runs[1].home.name)
    assert "train/worker.py" in assignment.source
    assert "[1/2] tiny-nodes" in capsys.readouterr().out
    assert run_all(runs[:1], force=True) == []
    assert sorted(record.generation for record in records(tmp_path)) == [1, 1, 2]


def test_no_launch_is_made_with_code_that_changed_since_the_command_began(runs, tmp_path, monkeypatch):
    assert run_all(runs[:1]) == []
    begun = {**files.source_files(), "train/worker.py": "0" * 12}
    monkeypatch.setattr(files, "source_files", lambda: begun)
    with pytest.raises(ConfigError, match=r"^train/worker\.py: changed since this command began\. What was measured"):
        run_all(runs)
    assert len(records(tmp_path)) == len(files.runs(runs[0].home)[0]) == 1
    assert files.runs(runs[1].home) == {}


def test_a_launch_records_when_its_rounds_had_to_end_and_the_command_that_the_user_typed(runs, monkeypatch):
    monkeypatch.setenv("TYPED_COMMAND", "make scaling 'COMMAND=./solver {ranks}' NODES=2")
    budget = RoundsBudget(41.5, protocol.RoundsTask(0.0, 17))
    assignment = one_run.make_assignment(Run(curve(), 0), WrittenRanks(), 1, budget=budget)
    identity = parts.identity(assignment, assignment.config)
    assert identity["rounds_end_s"] == assignment.config["rounds_end_s"] == 41.5
    assert identity["enough_rounds"] == assignment.rounds.enough_rounds == 17
    single = one_run.make_assignment(runs[0], WrittenRanks(), 1)
    identity = parts.identity(single, single.config)
    assert identity["rounds_end_s"] is None
    assert identity["typed_command"] == ["make", "scaling", "COMMAND=./solver {ranks}", "NODES=2"]


def test_a_folder_that_cannot_be_written_fails_its_run_alone(runs, capsys):
    first = runs[0]
    first.home.parent.mkdir(parents=True)
    first.home.write_text("a file, not a folder")
    assert run_all(runs) == [first.label]
    assert f"{first.label}: {first.home}/r0: Not a directory" in capsys.readouterr().out


def test_in_rounds_each_launch_begins_with_another_host(runs):
    hosts, in_rounds, [single] = ("a", "b", "c"), curve(), [run.point for run in runs if run.point.config.nodes == 2]
    launches = (Run(in_rounds, 0), Run(in_rounds, 1), Run(single, 1))
    orders = [one_run.ordered_hosts(hosts, launch) for launch in launches]
    assert orders == [("a", "b"), ("b", "a"), ("a", "b")]
    assert one_run.ordered_hosts((), Run(in_rounds, 1)) == ()
