import csv
from itertools import pairwise
from pathlib import Path

import pytest

from tests.helpers import GOLDEN
from train.config.checks import ConfigError
from train.config.schema import Container
from train.launch.job import Shared
from train.launch.start.containers import wrap

ARGV = ("python", "-m", "train", "nodes=2")
KIT = Path("/home/ada/kit")
RUN = KIT / "results/r0"  # within the kit, which is mounted to be read only: its mount must come later


def golden(name: str) -> list[str]:
    return (GOLDEN / f"container-{name}.txt").read_text().splitlines()


@pytest.mark.parametrize(
    ("engine", "image"), [("docker", "kit:cuda"), ("podman", "kit:cuda"), ("singularity", "images/kit-cuda.sif")]
)
def test_a_rank_with_gpus_data_and_another_user(engine, image):
    shared = Shared(
        KIT,
        reads=(Path("/data/fruit"),),
        writes=(RUN,),
        variables=("NCCL_DEBUG", "KIT_JOB_ID"),
        cores=(2, 3),
        gpu=True,
        uid=1000,
        gid=100,
    )
    assert wrap(ARGV, Container(engine, image), shared) == golden(f"{engine}-gpu")


def test_another_mpi_is_bound_over_the_one_of_the_image():
    container = Container("singularity", "images/kit-mvapich2.sif", mpi_home="/opt/mvapich2")
    assert wrap(ARGV, container, Shared(KIT, writes=(RUN,))) == golden("singularity-mpi_home")


def test_an_oci_engine_gets_the_library_path_too():
    argv = wrap(ARGV, Container("docker", "kit:mvapich2", mpi_home="/opt/mvapich2"), Shared(KIT))
    assert "LD_LIBRARY_PATH=/opt/mvapich2/lib" in argv
    assert "type=bind,source=/opt/mvapich2,target=/opt/mvapich2,readonly" in argv


def test_without_a_container_nothing_changes():
    assert wrap(ARGV, Container("none"), Shared(KIT)) == list(ARGV)


@pytest.mark.parametrize("name", ["run_10:30", "a, b", 'quo"te', "my results", "läufe"])
def test_a_folder_may_have_any_name_in_docker_and_is_refused_by_singularity_where_it_cannot_be(name):
    folder = Path("/data") / name
    mounts = [
        dict(item.partition("=")[::2] for item in row)
        for word, mount in pairwise(wrap(ARGV, Container("docker", "kit:cpu"), Shared(KIT, writes=(folder,))))
        if word == "--mount"
        for row in csv.reader([mount])  # as Docker and Podman read it
    ]
    assert mounts[-1] == {"type": "bind", "source": str(folder), "target": str(folder)}
    for_singularity = Shared(KIT, writes=(folder,))
    if {":", ","} & {*name}:
        with pytest.raises(ConfigError, match=r"container=singularity: folder=/data/.*no folder with a colon"):
            wrap(ARGV, Container("singularity", "kit.sif"), for_singularity)
    else:
        assert f"{folder}:{folder}" in wrap(ARGV, Container("singularity", "kit.sif"), for_singularity)
