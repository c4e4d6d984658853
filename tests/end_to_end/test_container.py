"""Ranks in a container whose own copy of the kit is another one: a run on that copy stops before anything is timed."""

import shutil
import socket
import sys
from pathlib import Path

import pytest

from tests.helpers import podman
from tests.helpers.kit import ROOT, launch_command, records, run

CHANGED = "conf/measure/report.yaml"
pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(podman.missing() is not None, reason=str(podman.missing())),
]


@pytest.fixture
def image(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """A function that makes the image of a kit in which one file is another one, with environment variables."""
    for name, value in podman.settings(tmp_path).items():
        monkeypatch.setenv(name, value)
    kit = tmp_path / "kit"
    for part in ("train", "conf"):
        shutil.copytree(ROOT / part, kit / part, ignore=shutil.ignore_patterns("__pycache__"))
    with (kit / CHANGED).open("a") as file:
        file.write("# changed\n")
    path = f"{Path(sys.prefix).resolve()}/bin:/usr/bin:/bin"

    def make(**variables: str) -> None:
        podman.import_image(tmp_path, kit, {"PATH": path, "PYTHONPATH": podman.KIT, **variables})
        if error := podman.cannot_run():  # the engine itself: no kit has run yet
            pytest.skip(f"Podman cannot run a container on this machine: {error}")

    return make


def measured(results: Path) -> tuple[int, str]:
    """The exit status and the output of an experiment of two ranks in the image."""
    asked = ("nodes=2", "--only=tiny-nodes2", "container=podman", f"container.image={podman.IMAGE}")
    return run(*launch_command(results, *asked))


def test_a_run_on_the_images_copy_stops_and_names_host_and_file(image, tmp_path):
    image(PYTHONSAFEPATH="1")  # Python then prefers PYTHONPATH to the working folder, which is the launcher's copy
    status, output = measured(tmp_path / "results")
    assert status == 1, output
    (record,) = records(tmp_path / "results")
    here = socket.gethostname()
    assert record.status == "failed"
    assert record.failure.reason.startswith(
        f"rank 0 ({here}), rank 1 ({here}): other files than the launcher: {CHANGED}."
    )
    assert not any({"warm_up", "timed"} & {*rank.phases_s} for rank in record.ranks)
    assert CHANGED in output


def test_the_launchers_copy_takes_precedence_over_the_images(image, tmp_path):
    image()
    status, output = measured(tmp_path / "results")
    assert status == 0, output
    (record,) = records(tmp_path / "results")
    assert (record.status, record.environment.image) == ("complete", podman.IMAGE)
    assert record.weights_differ is False
