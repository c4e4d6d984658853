"""Ranks in a container with a different copy of the kit: they run on the copy of the launcher."""

import shutil
import sys
from pathlib import Path

import psutil
import pytest

from record.parts import read_part
from tests.helpers import ROOT, podman
from tests.helpers.kit import TIMEOUT_S, in_phase, launch_command, ranks, start, wait_for

RESULTS = 'run_10:30, it\'s "mine"'  # a mounted folder can have such a name
pytestmark = [pytest.mark.end_to_end, pytest.mark.skipif(podman.missing() is not None, reason=str(podman.missing()))]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a Podman whose image has a kit with a changed file; skips if it cannot run."""
    folder = tmp_path_factory.mktemp("podman")
    kit = folder / "kit"
    for part in ("train", "record", "common", "conf"):
        shutil.copytree(ROOT / part, kit / part, ignore=shutil.ignore_patterns("__pycache__"))
    with (kit / "conf/measure/report.yaml").open("a") as file:
        file.write("# changed\n")
    path = f"{Path(sys.prefix).resolve()}/bin:/usr/bin:/bin"
    return podman.make_image(folder, kit, {"PATH": path, "PYTHONPATH": podman.KIT})


def test_ranks_run_on_the_launchers_copy_and_end_with_launcher_and_client_which_are_killed_together(settings, tmp_path):
    endless = ("nodes=2", "--only=tiny-nodes2", "measure.timed_steps=1000000", "container=podman")
    command = launch_command(tmp_path / RESULTS, *endless, f"container.image={podman.IMAGE}")
    launcher = start(*command, variables=settings)
    wait_for(lambda: in_phase(tmp_path, "timed") and len(ranks(tmp_path)) == 2)  # past the roll call
    [path] = tmp_path.rglob("rank-0.*.jsonl")
    environment = read_part(path).environment
    assert environment.image == podman.IMAGE
    assert environment.image_digest.startswith("sha256:")
    for process in [psutil.Process(launcher.pid), *psutil.Process(launcher.pid).children(recursive=True)]:
        process.kill()
    launcher.communicate(timeout=TIMEOUT_S)
    wait_for(lambda: not ranks(tmp_path))
