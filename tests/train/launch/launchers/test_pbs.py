"""PBS, on stand-ins for its programs, which answer as the manual of OpenPBS says. Its golden script: test_batch.py."""

import json

import pytest
from rich.console import Console

from tests.helpers.launches import make_plan
from train.config.checks import ConfigError
from train.launch import batch, status
from train.launch.launchers import LAUNCHERS
from train.launch.plan.make import Options
from train.launch.plan.runs import runs_of

PBS = LAUNCHERS["pbs"]


@pytest.mark.slow
def test_a_job_is_submitted_once_and_waits_in_the_queue(tmp_path, monkeypatch, program, capsys):
    program("qsub", "12.head")
    program("qstat", json.dumps({"Jobs": {"12.head": {"job_state": "Q"}, "13.head": {"job_state": "R"}}}))
    nodes = {name: {"resources_available": {"ncpus": n}} for name, n in (("a", 64), ("b", 48))}
    program("pbsnodes", json.dumps({"nodes": nodes}))
    overrides = ("experiment=weak_scaling", "model=tiny", "nodes=2", "ranks_per_node=4", "measure.repeats=1")
    overrides += ("launcher=pbs", f"results={tmp_path}/results")
    runs = runs_of(make_plan(*overrides).points, PBS)
    batch.submit(runs, PBS, Options(overrides), Console(soft_wrap=True))
    assert "submitted job 12.head (weak_scaling-nodes2)" in capsys.readouterr().out
    [script] = tmp_path.rglob("*.sh")
    assert "#PBS -l select=2:ncpus=48:mpiprocs=4\n" in script.read_text()
    with pytest.raises(ConfigError, match="tiny-nodes1, tiny-nodes2: a job that will run this is in the queue"):
        batch.submit(runs, PBS, Options(overrides), Console(soft_wrap=True))
    script.with_name("9.json").write_text("{")
    jobs = [batch.Submission("12.head", 2, 1, [str(run.home) for run in runs])]
    assert (batch.read(tmp_path / "results", "pbs"), batch.read(tmp_path / "results", "slurm")) == (jobs, [])
    assert "9.json: no job of a launch" in capsys.readouterr().err
    by_point = status.counts(tmp_path / "results", *status.find_jobs(tmp_path / "results"))
    assert [*by_point.values()] == [{"queued": 1}] * 2
    assert PBS.queue() == {"12.head": "QUEUED", "13.head": "RUNNING"}
    (tmp_path / "nodes").write_text("n1\nn1\nn2\nn2\n")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    assert PBS.allocated_hosts() == ["n1", "n2"]
