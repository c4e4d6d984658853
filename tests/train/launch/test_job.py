from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers.configs import changed
from tests.helpers.launches import points_of
from train.launch import job as jobs
from train.launch.job import Nodes, Setting, make_job

FOLDER = Path("/r/weak_scaling/tiny-nodes2/0a1b2c3d/r0")


def last_point(*overrides: str):
    return points_of("experiment=weak_scaling", "model=tiny", "nodes=2", *overrides)[-1]


def test_ranks_get_nothing_but_the_folder_of_their_run():
    job = make_job(last_point().config, FOLDER, Setting())
    assert job.argv[1:] == ("-m", "train", "--run-dir", str(FOLDER))
    assert (job.env, job.exchange.controller) == ({}, "gloo")
    assert job.nodes == Nodes(("localhost", "localhost"), ranks_per_node=1, cores_per_rank=1)
    assert job.shared.writes == (FOLDER,)


def test_a_point_takes_the_first_of_the_hosts():
    point = last_point("ranks_per_node=2", "system.cores_per_node=8", "device=gpu")
    job = make_job(point.config, FOLDER, Setting(("a", "b", "c")))
    assert job.nodes == Nodes(("a", "b"), ranks_per_node=2, cores_per_rank=4, gpus_per_node=2)
    assert job.nodes.ranks == 4
    assert [job.nodes.host_of(rank) for rank in range(4)] == ["a", "a", "b", "b"]
    assert job.env == {"KIT_PEERS": "a,b"}
    assert job.shared.cores == ()  # of other hosts, this one's say nothing


def test_servers_on_separate_nodes_take_the_hosts_after_those_of_the_ranks():
    apart = ("distribution=ps", "distribution.servers=2", "distribution.servers_on=nodes")
    hosts = ("launcher=ssh", "launcher.hosts=[a,b,c,d,e]", "system.cores_per_node=8")
    job = make_job(last_point(*apart, *hosts).config, FOLDER, Setting(("a", "b", "c", "d", "e")))
    assert job.nodes == Nodes(("a", "b", "c", "d"), ranks_per_node=1, cores_per_rank=8)
    here = make_job(last_point(*apart, "system.cores_per_node=1").config, FOLDER, Setting())
    assert here.nodes == Nodes(("localhost",) * 4, ranks_per_node=1, cores_per_rank=1)


@pytest.mark.parametrize(
    ("overrides", "hosts"),
    [
        (("nodes=2", "system.cores_per_node=8"), ()),
        (("nodes=1", "ranks_per_node=2", "system.cores_per_node=16"), ("a",)),
    ],
)
def test_one_process_has_the_cores_and_gpus_of_all_ranks(overrides, hosts):
    where = ("launcher=ssh", "launcher.hosts=[a]") if hosts else ()
    point = last_point("distribution=ps_cpu", "device=gpu", *where, *overrides)
    job = make_job(point.config, FOLDER, Setting(hosts))
    assert job.nodes == Nodes(hosts or ("localhost",), ranks_per_node=1, cores_per_rank=16, gpus_per_node=2)
    assert (job.ranks, job.exchange.controller) == (1, "none")


@pytest.mark.parametrize(
    ("overrides", "controller"),
    [
        (("distribution=none", "nodes=1"), "none"),
        (("distribution.controller=mpi",), "mpi"),
        (("distribution.controller=gloo",), "gloo"),
    ],
)
def test_how_the_ranks_meet(overrides, controller):
    assert make_job(last_point(*overrides).config, FOLDER, Setting()).exchange.controller == controller


def test_in_elastic_training_the_elastic_launcher_starts_the_ranks():
    point = last_point()
    elastic = {"distribution.elastic": True, "measure.epochs": 1, "dataset.name": "digits"}
    point = replace(point, config=changed(point.config, elastic))
    assert make_job(point.config, FOLDER, Setting()).exchange.controller == "elastic"


def test_ranks_in_a_container_get_what_an_image_does_not_know(monkeypatch):
    monkeypatch.setattr(jobs.environment, "git_state", lambda: ("0a1b2c", True))
    point = last_point("container=podman", "container.image=kit:cpu")
    job = make_job(point.config, FOLDER, Setting(image_digest="sha256:12"))
    assert job.argv[0] == "python"
    assert job.env == {
        "KIT_IMAGE": "kit:cpu",
        "KIT_IMAGE_DIGEST": "sha256:12",
        "KIT_GIT_COMMIT": "0a1b2c",
        "KIT_GIT_DIRTY": "1",
    }
    assert {*job.env, "KIT_JOB_ID", "KIT_JOB_STARTED_AT"} <= set(job.shared.variables)


def test_a_container_reads_the_data_and_the_weights():
    point = last_point()
    config = changed(point.config, {"weights": "/weights/resnet.h5", "dataset.data_dir": "/data/set"})
    job = make_job(config, FOLDER, Setting())
    assert job.shared.reads == (Path("/data/set"), Path("/weights/resnet.h5"))
