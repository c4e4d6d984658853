"""The launcher for PBS, on stand-ins for its programs, which answer as the manual of OpenPBS says."""

import json
import sys
from pathlib import Path

import pytest
from rich.console import Console

from tests.helpers import GOLDEN
from tests.helpers.launches import make_plan
from train.launch import batch, status
from train.launch.job import make_job
from train.launch.launchers import LAUNCHERS
from train.launch.plan.make import Options
from train.launch.plan.runs import Durations, runs_of
from train.record.kit import ROOT

OVERRIDES = (
    *("experiment=weak_scaling", "model=resnet50", "nodes=2", "launcher=pbs", "results=/shared/results"),
    *("system.cores_per_node=48", "system.partition=workq"),
)


PBS = LAUNCHERS["pbs"]


def test_the_batch_script_and_the_steps_are_the_golden_ones():
    plan = make_plan(*OVERRIDES)
    assert plan.launcher is PBS
    [planned_job] = batch.jobs(runs_of(plan.points, plan.launcher), Durations(), Options(OVERRIDES))
    text = PBS.script(planned_job.job) + "\n# The steps that the launcher makes of it:\n"
    for point in plan.points:
        step = PBS.command(make_job(point.config, Path("/shared/results/r0"), ("n1", "n2", "n3")))
        text += f"# {' '.join(step)}\n"
    text = text.replace(sys.executable, "/kit/.venv/bin/python").replace(str(ROOT), "/kit")
    assert text == (GOLDEN / "pbs.sh").read_text()


@pytest.mark.slow
def test_a_job_is_submitted_and_waits_in_the_queue(tmp_path, monkeypatch, program, capsys):
    program("qsub", "12.head")
    program("qstat", json.dumps({"Jobs": {"12.head": {"job_state": "Q"}, "13.head": {"job_state": "R"}}}))
    nodes = {name: {"resources_available": {"ncpus": n}} for name, n in (("a", 64), ("b", 48))}
    program("pbsnodes", json.dumps({"nodes": nodes}))
    overrides = ("experiment=weak_scaling", "model=tiny", "nodes=2", "ranks_per_node=4", "measure.repeats=1")
    overrides += ("launcher=pbs", f"results={tmp_path}/results")
    batch.submit(runs_of(make_plan(*overrides).points, PBS), PBS, Options(overrides), Console(soft_wrap=True))
    assert "submitted job 12.head" in capsys.readouterr().out
    [script] = tmp_path.rglob("*.sh")
    assert "#PBS -l select=2:ncpus=48:mpiprocs=4\n" in script.read_text()
    by_point = status.counts(tmp_path / "results", *status.find_jobs(tmp_path / "results"))
    assert [*by_point.values()] == [{"queued": 1}] * 2
    assert PBS.queue() == {"12.head": "QUEUED", "13.head": "RUNNING"}
    (tmp_path / "nodes").write_text("n1\nn1\nn2\nn2\n")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    assert PBS.allocated_hosts() == ["n1", "n2"]
