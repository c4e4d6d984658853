"""Ranks in a container whose own copy of the kit is another one: a run on that copy stops before anything is timed."""

import shutil
import socket
import sys
from collections.abc import Callable
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
def measured(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Measure a number of ranks in the image of a kit in which one file is another one: exit status and output.

    The function takes the number, and environment variables of the image.
    """
    settings = podman.settings(tmp_path)
    kit = tmp_path / "kit"
    for part in ("train", "conf"):
        shutil.copytree(ROOT / part, kit / part, ignore=shutil.ignore_patterns("__pycache__"))
    with (kit / CHANGED).open("a") as file:
        file.write("# changed\n")
    path = f"{Path(sys.prefix).resolve()}/bin:/usr/bin:/bin"

    def measure(nodes: int, **variables: str) -> tuple[int, str]:
        podman.import_image(settings, tmp_path, kit, {"PATH": path, "PYTHONPATH": podman.KIT, **variables})
        if error := podman.cannot_run(settings):  # the engine itself: no kit has run yet
            pytest.skip(f"Podman cannot run a container on this machine: {error}")
        asked = (f"nodes={nodes}", f"--only=tiny-nodes{nodes}", "container=podman", f"container.image={podman.IMAGE}")
        return run(*launch_command(tmp_path / "results", *asked), variables=settings)

    return measure


def test_a_run_on_the_images_copy_stops_and_names_host_and_file(measured, tmp_path):
    # Python then prefers PYTHONPATH to the working folder, which is the launcher's copy.
    status, output = measured(1, PYTHONSAFEPATH="1")
    assert status == 1, output
    (record,) = records(tmp_path / "results")
    assert record.status == "failed"
    assert record.failure.reason.startswith(
        f"rank 0 ({socket.gethostname()}): other files than the launcher: {CHANGED}."
    )
    assert not any({"warm_up", "timed"} & {*rank.phases_s} for rank in record.ranks)
    assert CHANGED in output


def test_the_launchers_copy_takes_precedence_over_the_images(measured, tmp_path):
    status, output = measured(2)
    assert status == 0, output
    (record,) = records(tmp_path / "results")
    assert (record.status, record.environment.image) == ("complete", podman.IMAGE)
    assert record.weights_differ is False
