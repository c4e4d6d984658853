import hashlib

import pytest

from train.config.checks import ConfigError
from train.config.schema import Container
from train.launch.start import images


@pytest.fixture
def engine(tmp_path, monkeypatch):
    """A command on the path that prints a text, or fails with it."""

    def make(name: str, prints: str, status: int = 0) -> None:
        command = tmp_path / name
        command.write_text(f"#!/bin/sh\necho '{prints}' >&{2 if status else 1}\nexit {status}\n")
        command.chmod(0o755)
        monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
        images._digest.cache_clear()

    return make


def test_docker_and_podman_name_the_same_image_alike(engine):
    engine("docker", f"sha256:{'0a' * 32}")
    engine("podman", "0a" * 32)  # Podman leaves the algorithm out
    assert images.digest(Container("docker", "kit:cpu")) == f"sha256:{'0a' * 32}"
    assert images.digest(Container("podman", "kit:cpu")) == f"sha256:{'0a' * 32}"


def test_the_digest_of_a_sif_is_that_of_the_file(engine, tmp_path):
    engine("singularity", "")
    (tmp_path / "kit.sif").write_bytes(b"SIF")
    expected = hashlib.sha256(b"SIF").hexdigest()
    assert images.digest(Container("singularity", str(tmp_path / "kit.sif"))) == f"sha256:{expected}"


def test_what_is_missing_is_said_with_what_makes_it(engine, tmp_path, monkeypatch):
    engine("podman", "Error: kit:cpu: image not known", status=125)
    builds = "podman does not have it; make image VARIANT=cpu CONTAINER=podman builds it"
    with pytest.raises(ConfigError, match=f"container.image=kit:cpu: {builds}$"):
        images.digest(Container("podman", "kit:cpu"))
    engine("docker", "Error: No such image: example.org/kit:1", status=1)
    with pytest.raises(ConfigError, match=r"docker does not have it; docker pull example\.org/kit:1$"):
        images.digest(Container("docker", "example.org/kit:1"))
    engine("singularity", "")
    with pytest.raises(ConfigError, match="no such file; make sif"):
        images.digest(Container("singularity", str(tmp_path / "none.sif")))
    with pytest.raises(ConfigError, match=r"container\.mpi_home=.*: it has no folder lib"):
        images.digest(Container("podman", "kit:cpu", mpi_home=str(tmp_path)))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    images._digest.cache_clear()
    with pytest.raises(ConfigError, match="container=docker: there is no command docker"):
        images.digest(Container("docker", "kit:cpu"))


def test_an_engine_that_does_not_work_is_not_asked_to_build(engine):
    said = "Got permission denied while trying to connect to the Docker daemon socket at unix:///var/run/docker.sock"
    engine("docker", said, status=1)
    with pytest.raises(ConfigError, match=f"docker does not work here \\({said}\\); start its daemon"):
        images.digest(Container("docker", "kit:cpu"))
    engine("podman", "", status=125)
    with pytest.raises(ConfigError, match=r"podman does not work here \(no message\); podman info says more"):
        images.digest(Container("podman", "kit:cpu"))


def test_no_container_no_digest():
    assert images.digest(Container("none")) is None
