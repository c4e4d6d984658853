"""Jobs. The commands of more: test_batch.py."""

from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers import launch_plans
from tests.helpers.configs import with_values
from train.config.run_config import RunConfig
from train.launch import job as jobs
from train.launch.job import Nodes, make_job

FOLDER = Path("/r/weak_scaling/tiny-nodes2/0a1b2c3d/r0")


def largest(*overrides: str) -> RunConfig:
    return launch_plans.plan_points("experiment=weak_scaling", "model=tiny", "nodes=2", *overrides)[-1].config


def test_nodes_are_filled_one_after_the_other():
    job = replace(launch_plans.job(), nodes=Nodes(("a", "b"), ranks_per_node=2))
    assert [job.host_of(rank) for rank in range(4)] == ["a", "a", "b", "b"]


def test_servers_on_separate_nodes_take_the_hosts_after_those_of_the_ranks():
    apart = ("distribution.backend=ps", "distribution.gradients=separate", "distribution.servers_on=nodes")
    hosts = ("launcher=ssh", "launcher.hosts=[a,b,c,d,e]", "system.cores_per_node=8")
    job = make_job(largest(*apart, *hosts, "distribution.servers=2"), FOLDER, ("a", "b", "c", "d", "e"))
    assert job.nodes == Nodes(("a", "b", "c", "d"), ranks_per_node=1, cores_per_rank=8)
    assert job.env == {"KIT_PEERS": "a,b,c,d"}
    assert job.shared.cores == ()  # the cores of this machine are not those of other hosts
    local = make_job(largest(*apart), FOLDER)
    assert local.nodes == Nodes(("localhost",) * 3, ranks_per_node=1, cores_per_rank=1)


@pytest.mark.parametrize(
    ("overrides", "hosts"),
    [
        (("nodes=2", "system.cores_per_node=8"), ()),
        (("nodes=1", "ranks_per_node=2", "system.cores_per_node=16", "launcher=ssh", "launcher.hosts=[a]"), ("a",)),
    ],
)
def test_one_process_has_the_cores_and_gpus_of_all_ranks(overrides, hosts):
    job = make_job(largest("distribution.backend=ps_cpu", "device=gpu", *overrides), FOLDER, hosts)
    assert job.nodes == Nodes(hosts or ("localhost",), ranks_per_node=1, cores_per_rank=16, gpus_per_node=2)
    assert (job.ranks, job.exchange.controller) == (1, "none")


def test_ranks_in_a_container_get_the_names_of_the_image_and_the_commit(monkeypatch):
    monkeypatch.setattr(jobs.environment, "git_state", lambda: ("0a1b2c", True))
    config = largest("container.name=podman", "container.image=kit:cpu")
    job = make_job(config, FOLDER, image_digest="sha256:12")
    assert job.argv[0] == "python"
    assert job.env == {
        "KIT_IMAGE": "kit:cpu",
        "KIT_IMAGE_DIGEST": "sha256:12",
        "KIT_GIT_COMMIT": "0a1b2c",
        "KIT_GIT_DIRTY": "1",
    }
    assert {*job.env, "KIT_JOB_ID", "KIT_JOB_STARTED_AT"} <= set(job.shared.variables)


@pytest.mark.parametrize(
    ("overrides", "hosts", "passed_on"),
    [
        (["container.name=podman", "container.image=kit:cpu"], (), {"NCCL_DEBUG", "SLURM_JOB_ID"}),
        (["launcher=ssh", "launcher.hosts=[a,b]"], ("a", "b"), {"PATH", "LD_PRELOAD", "NCCL_DEBUG"}),
    ],
)
def test_ranks_that_do_not_inherit_them_get_the_variables_that_are_recorded(monkeypatch, overrides, hosts, passed_on):
    names = ("PATH", "LD_PRELOAD", "NCCL_DEBUG", "SLURM_JOB_ID", "PMIX_RANK", "HOROVOD_RANK", "API_KEY")
    config = largest("system.cores_per_node=8", *overrides)
    monkeypatch.setattr("os.environ", dict.fromkeys(names, "1"))
    variables = make_job(config, FOLDER, hosts).shared.variables
    assert passed_on == {*variables} & {*names}


def test_a_container_reads_the_data_and_the_weights():
    config = with_values(largest(), {"weights": "/weights/resnet.h5", "dataset.data_dir": "/data/set"})
    assert make_job(config, FOLDER).shared.reads == (Path("/data/set"), Path("/weights/resnet.h5"))
