import hashlib
from types import SimpleNamespace

import pytest

from train.config.checks import ConfigError
from train.config.schema import Container
from train.launch.job import MPICH, OPEN_MPI
from train.launch.launchers import LAUNCHERS
from train.launch.start import containers

pytestmark = pytest.mark.slow  # starts processes


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """A command on the path that prints a text, or fails with it."""

    def make(name: str, prints: str, status: int = 0) -> None:
        command = tmp_path / name
        command.write_text(f"#!/bin/sh\necho '{prints}' >&{2 if status else 1}\nexit {status}\n")
        command.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        containers._digest.cache_clear()

    return make


def test_docker_and_podman_name_the_same_image_alike(engine):
    engine("docker", f"sha256:{'0a' * 32}")
    engine("podman", "0a" * 32)  # Podman leaves the algorithm out
    assert containers.image_digest(Container("docker", "kit:cpu")) == f"sha256:{'0a' * 32}"
    assert containers.image_digest(Container("podman", "kit:cpu")) == f"sha256:{'0a' * 32}"


def test_the_digest_of_a_sif_is_that_of_the_file(engine, tmp_path):
    engine("singularity", "")
    (tmp_path / "kit.sif").write_bytes(b"SIF")
    expected = hashlib.sha256(b"SIF").hexdigest()
    assert containers.image_digest(Container("singularity", str(tmp_path / "kit.sif"))) == f"sha256:{expected}"


def test_what_is_missing_is_reported_with_what_makes_it(engine, tmp_path, monkeypatch):
    engine("podman", "Error: kit:cpu: image not known", status=125)
    builds = "podman does not have it; make image VARIANT=cpu CONTAINER=podman builds it"
    with pytest.raises(ConfigError, match=f"container.image=kit:cpu: {builds}$"):
        containers.image_digest(Container("podman", "kit:cpu"))
    engine("docker", "Error: No such image: example.org/kit:1", status=1)
    with pytest.raises(ConfigError, match=r"docker does not have it; docker pull example\.org/kit:1$"):
        containers.image_digest(Container("docker", "example.org/kit:1"))
    engine("singularity", "")
    with pytest.raises(ConfigError, match="no such file; make sif"):
        containers.image_digest(Container("singularity", str(tmp_path / "none.sif")))
    with pytest.raises(ConfigError, match=r"container\.mpi_home=.*: it has no folder lib"):
        containers.image_digest(Container("podman", "kit:cpu", mpi_home=str(tmp_path)))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    containers._digest.cache_clear()
    with pytest.raises(ConfigError, match="container=docker: there is no command docker"):
        containers.image_digest(Container("docker", "kit:cpu"))


def test_an_engine_that_does_not_work_is_not_asked_to_build(engine):
    said = "Got permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"
    engine("docker", said, status=1)
    with pytest.raises(ConfigError, match=f"docker does not work here \\({said}\\); start its daemon"):
        containers.image_digest(Container("docker", "kit:cpu"))
    engine("podman", "", status=125)
    with pytest.raises(ConfigError, match=r"podman does not work here \(no message\); podman info says more"):
        containers.image_digest(Container("podman", "kit:cpu"))


def test_no_container_no_digest():
    assert containers.image_digest(Container("none")) is None


@pytest.fixture
def command(tmp_path, monkeypatch):
    """A command on the path, the only one, that prints a text, and keeps what it was told."""

    def make(name: str, prints: str) -> None:
        path = tmp_path / name
        path.write_text(f"#!/bin/sh\necho \"$@\" >{tmp_path}/told\ncat <<'END'\n{prints}\nEND\n")
        path.chmod(0o755)
        (tmp_path / "cat").unlink(missing_ok=True)
        (tmp_path / "cat").symlink_to("/bin/cat")
        monkeypatch.setenv("PATH", str(tmp_path))
        containers._implementation.cache_clear()

    yield make
    containers._implementation.cache_clear()


def config(controller: str = "mpi", container: Container | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        distribution=SimpleNamespace(backend="horovod", controller=controller),
        container=container or containers.NO_CONTAINER,
    )


# The first line that each prints when it is asked for its version.
OPEN_MPI_SAYS = "mpirun (Open MPI) 4.1.4"
MPICH_SAYS = "HYDRA build details:\n    Version:                                 4.3.2"


@pytest.mark.parametrize(("says", "expected"), [(OPEN_MPI_SAYS, OPEN_MPI), (MPICH_SAYS, MPICH)])
def test_mpirun_is_asked_whose_it_is(command, says, expected):
    command("mpirun", says)
    assert containers.mpi_implementation(containers.NO_CONTAINER) == expected


def test_in_a_container_that_of_the_image_is_asked(command, tmp_path):
    command("singularity", MPICH_SAYS)
    contained = config(container=Container("singularity", "images/kit-mvapich2.sif", mpi_home="/opt/mvapich2"))
    assert LAUNCHERS["local"].mpirun(contained) == MPICH
    assert (tmp_path / "told").read_text().endswith("images/kit-mvapich2.sif mpirun --version\n")


def test_where_no_mpirun_starts_the_ranks_none_is_asked(monkeypatch, tmp_path):
    monkeypatch.setenv("PATH", str(tmp_path))
    assert {launcher.mpirun(config("gloo")) for launcher in LAUNCHERS.values()} == {OPEN_MPI}
    assert LAUNCHERS["slurm"].mpirun(config()) == OPEN_MPI


def test_over_ssh_the_mpirun_of_this_machine_counts_and_must_be_open_mpi(command):
    command("mpirun", OPEN_MPI_SAYS)
    remote = config(container=Container("singularity", "none.sif"))
    assert LAUNCHERS["ssh"].mpirun(remote) == OPEN_MPI
    command("mpirun", MPICH_SAYS)
    with pytest.raises(ConfigError, match="over ssh only Open MPI"):
        LAUNCHERS["ssh"].mpirun(remote)


def test_no_mpirun_is_reported_before_anything_starts(command):
    command("cat", "")
    with pytest.raises(ConfigError, match=r"this machine has no mpirun .*\(there is no command mpirun\); install one"):
        containers.mpi_implementation(containers.NO_CONTAINER)
    command("mpirun", "SGI MPT 2.1")
    with pytest.raises(ConfigError, match=r"\(it says: SGI MPT 2.1\)"):
        containers.mpi_implementation(containers.NO_CONTAINER)
