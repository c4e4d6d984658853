"""PBS, on stand-ins for its programs, which answer as the manual of OpenPBS says. Its golden script: test_batch.py."""

import json

import pytest

from tests.helpers.launch_plans import make_plan
from train.config.checks import ConfigError
from train.launch import batch, status
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import AvailableNodes, QueuedJob
from train.launch.launchers.pbs import Pbs
from train.launch.plan.make_plan import Options
from train.launch.plan.planned_runs import runs_of

PBS = LAUNCHERS["pbs"]
JOBS = {"Jobs": {"12.head": {"job_state": "Q", "comment": "Not Running: no node"}, "13.head": {"job_state": "R"}}}
SERVER = {"Server": {"head": {"default_queue": "workq"}}}
QUEUES = {"Queue": {"workq": {"default_chunk": {"Qlist": "small", "ncpus": 1}}}}


def node(ncpus: int | None = None, qlist: str = "small", **more) -> dict:
    return {"resources_available": {"Qlist": qlist} | ({"ncpus": ncpus} if ncpus else {}), **more}


NODES = {
    "a": node(64), "b": node(48, "small,large"), "of another queue": node(4, queue="debug"), "large": node(8, "large"),
    "down": node(state="state-unknown,down"), "offline": node(2, state="offline"),
}  # fmt: skip


@pytest.mark.slow
def test_a_job_is_submitted_once_and_waits_in_the_queue(tmp_path, monkeypatch, program, capsys):
    program("qsub", "12.head")
    program("qstat", json.dumps(JOBS | SERVER | QUEUES))  # one answer to all its questions
    program("pbsnodes", json.dumps({"nodes": NODES}))
    monkeypatch.setitem(LAUNCHERS, "pbs", Pbs())
    overrides = ("experiment=weak_scaling", "model=tiny", "nodes=2", "ranks_per_node=4", "measure.repeats=1")
    overrides += ("launcher=pbs", "system.account=my project", f"results={tmp_path}/results")
    overrides += ("system.sbatch=['-l filesystems=home:eagle']",)
    runs = runs_of(make_plan(*overrides).points, PBS)
    batch.submit(runs, PBS, Options(overrides))
    assert "submitted job 12.head (weak_scaling-nodes2)" in capsys.readouterr().out
    [script] = tmp_path.rglob("*.sh")
    lines = script.read_text().splitlines()
    expected = ("-l select=2:ncpus=48:mpiprocs=4", "-A 'my project'", "-l filesystems=home:eagle")
    assert {f"#PBS {option}" for option in expected} <= {*lines}
    with pytest.raises(ConfigError, match="tiny-nodes1, tiny-nodes2: a job that will run this is in the queue"):
        batch.submit(runs, PBS, Options(overrides))
    script.with_name("9.json").write_text("{")
    jobs = [batch.Submission("12.head", 2, {str(run.home): [0] for run in runs})]
    assert [batch.read_submissions(tmp_path / "results", system) for system in ("pbs", "slurm")] == [jobs, []]
    assert "9.json: no job of a launch" in capsys.readouterr().err
    by_point = status.state_counts(tmp_path / "results", *status.find_jobs(tmp_path / "results"))
    assert [*by_point.values()] == [{"queued": 1}] * 2
    assert PBS.queue() == {"12.head": QueuedJob("QUEUED", "Not Running: no node"), "13.head": QueuedJob("RUNNING")}
    (tmp_path / "nodes").write_text("n1\nn1\nn2\nn2\n")
    monkeypatch.setenv("PBS_NODEFILE", str(tmp_path / "nodes"))
    assert PBS.hosts(None) == ("n1", "n2")


@pytest.mark.slow
def test_nodes_are_those_of_the_queue_and_other_answers_are_named(program):
    program("qstat", json.dumps(SERVER | QUEUES))
    program("pbsnodes", json.dumps({"nodes": NODES}))
    assert PBS.find_nodes(None, smt=False) == AvailableNodes(48, 0, 2, "queue workq (pbsnodes)")
    assert PBS.queue() == {}
    program(
        "qstat", json.dumps(SERVER | {"Queue": {"workq": QUEUES["Queue"]["workq"] | {"resources_max": {"nodect": 1}}}})
    )
    assert PBS.find_nodes(None, smt=False).count == 1  # no job of the queue gets more
    for answer in ('{"Server": {', '{"Server": [1]}', "qstat: cannot connect"):
        program("qstat", answer)
        with pytest.raises(ConfigError, match=r"launcher=pbs: qstat -B .* answered .*: not as expected: "):
            PBS.find_nodes(None, smt=False)
