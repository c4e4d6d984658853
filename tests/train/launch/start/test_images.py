import re
from types import SimpleNamespace

import pytest

from train.config.checks import ConfigError
from train.config.machine_config import ContainerConfig
from train.launch.job import MPICH, OPEN_MPI
from train.launch.launchers import LAUNCHERS
from train.launch.start import containers

pytestmark = pytest.mark.slow  # starts processes


def test_docker_and_podman_name_the_same_image_alike(program):
    program("docker", f"sha256:{'0a' * 32}")
    program("podman", "0a" * 32)  # Podman leaves the algorithm out
    for engine in ("docker", "podman"):
        assert containers.image_digest(ContainerConfig(engine, "kit:cpu")) == f"sha256:{'0a' * 32}"


DENIED = "Got permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"


@pytest.mark.parametrize(
    ("engine", "image", "stderr", "message"),
    [
        (
            *("podman", "kit:cpu", "Error: kit:cpu: image not known"),
            "container.image=kit:cpu: podman does not have it; make image VARIANT=cpu CONTAINER=podman builds it",
        ),
        (
            *("docker", "example.org/kit:1", "Error: No such image: example.org/kit:1"),
            "docker does not have it; docker pull example.org/kit:1",
        ),
        ("docker", "kit:cpu", DENIED, f"docker does not work here ({DENIED}); start its daemon"),
        ("podman", "kit:cpu", "", "podman does not work here (no message); podman info says more"),
        ("singularity", "none.sif", "", "no such file; make sif"),
    ],
)
def test_an_image_that_is_missing_and_an_engine_that_does_not_work_are_distinguished(
    program, engine, image, stderr, message
):
    program(engine, stderr, status=1)
    with pytest.raises(ConfigError, match=re.escape(message)):
        containers.image_digest(ContainerConfig(engine, image))


def test_a_missing_engine_or_mpi_is_an_error(program, tmp_path):
    with pytest.raises(ConfigError, match=r"container\.mpi_home=.*: it has no folder lib"):
        containers.image_digest(ContainerConfig("podman", "kit:cpu", mpi_home=str(tmp_path)))
    with pytest.raises(ConfigError, match="container=docker: there is no command docker"):
        containers.image_digest(ContainerConfig("docker", "kit:cpu"))


def config(controller: str = "mpi", container: ContainerConfig = containers.NO_CONTAINER) -> SimpleNamespace:
    return SimpleNamespace(distribution=SimpleNamespace(backend="horovod", controller=controller), container=container)


# The first lines that each prints with --version.
OPEN_MPI_VERSION = "mpirun (Open MPI) 4.1.4"
MPICH_VERSION = "HYDRA build details:\n    Version:                                 4.3.2"


def test_in_a_container_the_mpirun_of_the_image_counts(program):
    singularity = program("singularity", MPICH_VERSION)
    contained = config(container=ContainerConfig("singularity", "images/kit-mvapich2.sif", mpi_home="/opt/mvapich2"))
    assert LAUNCHERS["local"].mpirun(contained) == MPICH
    arguments = singularity.with_name("arguments").read_text()
    assert arguments.endswith("images/kit-mvapich2.sif mpirun --version\n")


def test_the_mpirun_of_this_machine_counts_where_it_starts_the_ranks_and_must_be_open_mpi_over_ssh(program):
    assert {launcher.mpirun(config("gloo")) for launcher in LAUNCHERS.values()} == {OPEN_MPI}  # none is needed
    assert LAUNCHERS["slurm"].mpirun(config()) == OPEN_MPI
    remote = config(container=ContainerConfig("singularity", "none.sif"))
    with pytest.raises(ConfigError, match=r"this machine has no mpirun .*\(there is no command mpirun\); install one"):
        LAUNCHERS["ssh"].mpirun(remote)
    for version, problem in ((MPICH_VERSION, "over ssh only Open MPI"), ("SGI MPT 2.1", r"\(it says: SGI MPT 2.1\)")):
        program("mpirun", version)
        with pytest.raises(ConfigError, match=problem):
            LAUNCHERS["ssh"].mpirun(remote)
    program("mpirun", OPEN_MPI_VERSION)
    assert LAUNCHERS["ssh"].mpirun(remote) == OPEN_MPI
