"""LSF, on stand-ins for its programs. A job that a stand-in for bsub runs: tests/end_to_end/test_clusters.py."""

import json

import pytest

from train.config.checks import ConfigError
from train.config.machine_config import SystemConfig
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import AvailableNodes, BatchJob, QueuedJob

LSF = LAUNCHERS["lsf"]
HOSTS = [("ok", "48", "4"), ("closed_Excl", "64", "-"), ("unavail", "2", "-"), ("ok", "-", "-")]
HOSTS = {"RECORDS": [{"HOST_NAME": f"h{i}", "STATUS": s, "MAX": m, "NGPUS": g} for i, (s, m, g) in enumerate(HOSTS)]}


@pytest.mark.slow
def test_a_job_is_submitted_and_its_hosts_are_those_of_the_allocation(tmp_path, monkeypatch, program):
    system = SystemConfig("site", sbatch=("-alloc_flags smt1",))
    job = BatchJob("weak_scaling-nodes2", 2, 4, 12, 0, 1800, tmp_path, system, ("python", "-m", "train.launch"))
    expected = ("-n 96", '-R "span[ptile=48]"', "-x", "-W 00:30", "-wa TERM", "-wt 1", "-alloc_flags smt1")
    assert {f"#BSUB {option}" for option in expected} <= {*LSF.script(job).splitlines()}
    (tmp_path / "job.sh").write_text(LSF.script(job))
    program("bsub", "Job <12> is submitted to default queue <normal>.")
    assert LSF.submit(tmp_path / "job.sh") == "12"
    jobs = [{"JOBID": "12", "STAT": "PEND", "PEND_REASON": "Job slot limit"}, {"JOBID": "9", "STAT": "RUN"}]
    program("bjobs", json.dumps({"COMMAND": "bjobs", "JOBS": 2, "RECORDS": jobs}))
    assert LSF.queue() == {"12": QueuedJob("PEND", "Job slot limit"), "9": QueuedJob("RUNNING")}
    monkeypatch.setenv("LSB_HOSTS", "h0 h0 h1 h1")
    assert LSF.hosts(None) == ("h0", "h1")


@pytest.mark.slow
def test_nodes_are_those_of_the_queue_and_other_answers_are_named(tmp_path, program):
    program("bparams", "Default Queues:  normal interactive")
    program("bqueues", "all")
    program("bhosts", json.dumps(HOSTS))
    assert LSF.find_nodes(None, smt=False) == AvailableNodes(48, 0, 2, "queue normal (bhosts)")
    program("bqueues", "rack1/ h7+2")
    assert LSF.find_nodes("long", smt=False) == AvailableNodes(48, 0, 2, "queue long (bhosts)")
    assert (tmp_path / "bin/arguments").read_text().endswith("-json rack1 h7\n")
    program("bparams", "LSF is down. Please wait ...")
    with pytest.raises(ConfigError, match=r"launcher=lsf: bparams answered LSF is down.*: not as expected: no default"):
        LSF.find_nodes(None, smt=False)
    program("bjobs", "No unfinished job found", status=255)
    assert LSF.queue() == {}
    program("bjobs", "LSF is down", status=255)
    with pytest.raises(ConfigError, match="LSF is down"):
        LSF.queue()
