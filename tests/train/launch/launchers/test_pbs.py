"""The launcher for PBS, on stand-ins for its programs."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import GOLDEN, shell
from tests.helpers.launches import make_plan
from tests.helpers.programs import write_program
from train.launch.batch import jobs
from train.launch.job import Setting, make_job
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
    [planned_job] = jobs(runs_of(plan.points, plan.launcher), Durations(), Options(OVERRIDES))
    text = PBS.script(planned_job.job) + "\n# The steps that the launcher makes of it:\n"
    for point in plan.points:
        step = PBS.command(make_job(point.config, Path("/shared/results/r0"), Setting(("n1", "n2", "n3"))))
        text += f"# {' '.join(step)}\n"
    text = text.replace(sys.executable, "/kit/.venv/bin/python").replace(str(ROOT), "/kit")
    assert text == (GOLDEN / "pbs.sh").read_text()


@pytest.mark.slow
def test_answers_of_pbs_are_read(tmp_path, monkeypatch, program):
    program("qsub", "12.head")
    program("qstat", json.dumps({"Jobs": {"12.head": {"job_state": "R"}, "13.head": {"job_state": "Q"}}}))
    nodes = {name: {"resources_available": {"ncpus": n}} for name, n in (("a", 64), ("b", 48))}
    program("pbsnodes", json.dumps({"nodes": nodes}))
    assert PBS.submit(tmp_path / "job.sh") == "12.head"
    assert PBS.queue() == {"12.head": "RUNNING", "13.head": "QUEUED"}
    assert PBS.cores_of_a_node(None) == 48
    (tmp_path / "nodes").write_text("n1\nn1\nn2\nn2\n")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    assert PBS.allocated_hosts() == ["n1", "n2"]


@pytest.mark.slow
def test_a_submission_by_a_stand_in_for_qsub_waits_in_its_queue(tmp_path):
    """No real PBS is here: these programs answer as the manual of OpenPBS says."""
    answers = {
        "qsub": {"": 'cp "$1" submitted; echo 12.head'},
        "qstat": {"Jobs": {"12.head": {"job_state": "Q"}}},
        "pbsnodes": {"nodes": {"a": {"resources_available": {"ncpus": 48}}}},
    }
    for name, answer in answers.items():
        write_program(tmp_path / "bin" / name, answer.get("") or f"echo '{json.dumps(answer)}'")

    def run(*command: str) -> subprocess.CompletedProcess:
        path = f"{tmp_path / 'bin'}:{os.environ['PATH']}"
        environment = {**shell.ENVIRONMENT, "PYTHONPATH": str(ROOT), "PATH": path}
        return subprocess.run(
            [sys.executable, "-m", *command], cwd=tmp_path, env=environment, capture_output=True, text=True
        )

    def launch(*more: str) -> subprocess.CompletedProcess:
        few = ("model=tiny", "results=results", "measure.repeats=1", "measure.design=launches", *more)
        return run("train.launch", "experiment=weak_scaling", "launcher=pbs", "nodes=2", "ranks_per_node=4", *few)

    done = launch()
    assert done.returncode == 0, done.stderr
    script = (tmp_path / "submitted").read_text()
    assert "#PBS -l select=2:ncpus=48:mpiprocs=4\n" in script
    assert f"cd {ROOT} || exit" in script
    assert "2 queued" in run("train.launch.status", "results").stdout
    assert "with launcher=pbs allowed are none, singularity" in launch("container=docker").stderr
