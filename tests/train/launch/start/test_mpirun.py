from types import SimpleNamespace

import pytest

from train.config.checks import ConfigError
from train.config.schema import Container
from train.launch.launchers import LAUNCHERS
from train.launch.plan.job import MPICH, OPEN_MPI
from train.launch.start import mpirun


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
        mpirun._ask.cache_clear()

    yield make
    mpirun._ask.cache_clear()


def config(controller: str = "mpi", container: Container | None = None) -> SimpleNamespace:
    return SimpleNamespace(
        distribution=SimpleNamespace(backend="horovod", controller=controller),
        container=container or mpirun.NO_CONTAINER,
    )


# The first line that each prints when it is asked for its version.
OPEN_MPI_SAYS = "mpirun (Open MPI) 4.1.4"
MPICH_SAYS = "HYDRA build details:\n    Version:                                 4.3.2"


@pytest.mark.parametrize(("says", "expected"), [(OPEN_MPI_SAYS, OPEN_MPI), (MPICH_SAYS, MPICH)])
def test_mpirun_is_asked_whose_it_is(command, says, expected):
    command("mpirun", says)
    assert mpirun.implementation(mpirun.NO_CONTAINER) == expected


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


def test_no_mpirun_is_said_before_anything_starts(command):
    command("cat", "")
    with pytest.raises(ConfigError, match=r"this machine has no mpirun .*\(there is no command mpirun\); install one"):
        mpirun.implementation(mpirun.NO_CONTAINER)
    command("mpirun", "SGI MPT 2.1")
    with pytest.raises(ConfigError, match=r"\(it says: SGI MPT 2.1\)"):
        mpirun.implementation(mpirun.NO_CONTAINER)
