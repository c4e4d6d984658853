"""The launcher of docs/adding.md, run from the code on the page."""

import json
import re
import shutil
import subprocess
import sys
import types
from pathlib import Path

import pytest

from tests.helpers import GOLDEN, shell
from tests.helpers.launches import make_plan
from train.config import compose
from train.launch.batch import jobs
from train.launch.job import Setting, make_job
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import BatchLauncher
from train.launch.plan.make import Options
from train.launch.plan.runs import Durations, runs_of
from train.record.files import ROOT

PAGE = (ROOT / "docs/adding.md").read_text().split("## Your own launcher")[1]
CODE = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
YAML = re.search(r"```yaml\n(.*?)```", PAGE, re.S)[1]
OVERRIDES = (
    *("experiment=weak_scaling", "model=resnet50", "nodes=2", "launcher=pbs", "results=/shared/results"),
    *("system.cores_per_node=48", "system.partition=workq"),
)


@pytest.fixture
def pbs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> BatchLauncher:
    """The launcher of the page, registered, with its file in a copy of conf/."""
    module = types.ModuleType("pbs")
    exec(CODE, module.__dict__)
    monkeypatch.setitem(LAUNCHERS, "pbs", module.LAUNCHER)
    shutil.copytree(ROOT / "conf", tmp_path / "conf")
    (tmp_path / "conf/launcher/pbs.yaml").write_text(YAML)
    monkeypatch.setattr(compose, "CONF", tmp_path / "conf")
    return module.LAUNCHER


def test_the_batch_script_and_the_steps_are_the_golden_ones(pbs):
    plan = make_plan(*OVERRIDES)
    assert plan.launcher is pbs
    [planned_job] = jobs(runs_of(plan.points, plan.launcher), Durations(), Options(OVERRIDES))
    text = pbs.script(planned_job.job) + "\n# The steps that the launcher makes of it:\n"
    for point in plan.points:
        step = pbs.command(make_job(point.config, Path("/shared/results/r0"), Setting(("n1", "n2", "n3"))))
        text += f"# {' '.join(step)}\n"
    text = text.replace(sys.executable, "/kit/.venv/bin/python").replace(str(ROOT), "/kit")
    assert text == (GOLDEN / "pbs.sh").read_text()


@pytest.mark.slow
def test_answers_of_pbs_are_read(pbs, tmp_path, monkeypatch, program):
    program("qsub", "12.head")
    program("qstat", json.dumps({"Jobs": {"12.head": {"job_state": "R"}, "13.head": {"job_state": "Q"}}}))
    nodes = {name: {"resources_available": {"ncpus": n}} for name, n in (("a", 64), ("b", 48))}
    program("pbsnodes", json.dumps({"nodes": nodes}))
    assert pbs.submit(tmp_path / "job.sh") == "12.head"
    assert pbs.queue() == {"12.head": "RUNNING", "13.head": "QUEUED"}
    assert pbs.cores_of_a_node(None) == 48
    (tmp_path / "nodes").write_text("n1\nn1\nn2\nn2\n")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    assert pbs.allocated_hosts() == ["n1", "n2"]


@pytest.mark.slow
def test_the_two_files_are_all_that_a_kit_needs(tmp_path):
    for folder in ("train", "conf"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("__pycache__"))
    (tmp_path / "train/launch/launchers/pbs.py").write_text(CODE)
    (tmp_path / "conf/launcher/pbs.yaml").write_text(YAML)

    def dry_run(*more: str) -> subprocess.CompletedProcess:
        command = [sys.executable, "-m", "train.launch", "--dry-run", *OVERRIDES, "ranks_per_node=4", *more]
        return subprocess.run(command, cwd=tmp_path, env=shell.ENVIRONMENT, capture_output=True, text=True)

    script = dry_run("measure.repeats=1").stdout
    assert "#PBS -l select=2:ncpus=48:mpiprocs=4\n" in script
    assert f"cd {tmp_path} || exit" in script
    assert "with launcher=pbs allowed are none, singularity" in dry_run("container=docker").stderr
