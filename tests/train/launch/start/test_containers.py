import csv
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers import GOLDEN
from train.config.checks import ConfigError
from train.config.machine_config import ContainerConfig
from train.launch.job import Shared
from train.launch.start.containers import wrap

ARGV = ("python", "-m", "train", "nodes=2")
KIT = Path("/home/ada/kit")
RUN = KIT / "results/r0"  # within the kit, which is mounted to be read only: its mount must come later
GPU = Shared(
    KIT,
    reads=(Path("/data/fruit"),),
    writes=(RUN,),
    variables=("NCCL_DEBUG", "KIT_JOB_ID"),
    cores=(2, 3),
    gpu=True,
    uid=1000,
    gid=100,
)


@pytest.mark.parametrize(
    ("name", "container", "shared"),
    [
        ("docker-gpu", ContainerConfig("docker", "kit:cuda"), GPU),
        ("podman-gpu", ContainerConfig("podman", "kit:cuda"), GPU),
        ("singularity-gpu", ContainerConfig("singularity", "images/kit-cuda.sif"), GPU),
        (
            "singularity-mpi_home",
            ContainerConfig("singularity", "images/kit-mvapich2.sif", mpi_home="/opt/mvapich2"),
            Shared(KIT, writes=(RUN,)),
        ),
    ],
)
def test_the_command_is_the_golden_one(name, container, shared):
    assert wrap(ARGV, container, shared) == (GOLDEN / f"container-{name}.txt").read_text().splitlines()


def test_an_oci_engine_gets_the_library_path_too():
    argv = wrap(ARGV, ContainerConfig("docker", "kit:mvapich2", mpi_home="/opt/mvapich2"), Shared(KIT))
    assert "LD_LIBRARY_PATH=/opt/mvapich2/lib" in argv
    assert "type=bind,source=/opt/mvapich2,target=/opt/mvapich2,readonly" in argv


@pytest.mark.parametrize("name", ["run_10:30", "a, b", 'quo"te', "my results", "läufe"])
def test_a_folder_may_have_any_name_in_docker_and_is_refused_by_singularity_where_it_cannot_be(name):
    folder = Path("/data") / name
    shared = Shared(KIT, writes=(folder,))
    argv = wrap(ARGV, ContainerConfig("docker", "kit:cpu"), shared)
    mount = [value for option, value in pairwise(argv) if option == "--mount"][-1]
    [items] = csv.reader([mount])  # Docker and Podman read it so
    assert items == ["type=bind", f"source={folder}", f"target={folder}"]
    if {":", ","} & {*name}:
        with pytest.raises(ConfigError, match=r"container=singularity: folder=/data/.*no folder with a colon"):
            wrap(ARGV, ContainerConfig("singularity", "kit.sif"), shared)
    else:
        assert f"{folder}:{folder}" in wrap(ARGV, ContainerConfig("singularity", "kit.sif"), shared)
