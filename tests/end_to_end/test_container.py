"""Ranks in a container with a different copy of the kit: they run on the copy of the launcher."""

import json
import shutil
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.helpers import ROOT, podman
from tests.helpers.kit import TIMEOUT_S, in_phase, launch_command, ranks, records, start, succeed, wait_for
from train.launch.start import init

RESULTS = 'run_10:30, it\'s "mine"'  # a mounted folder can have such a name
pytestmark = [pytest.mark.end_to_end, pytest.mark.skipif(podman.missing() is not None, reason=str(podman.missing()))]


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The variables of a Podman whose image has a kit with a changed file; skips if it cannot run."""
    folder = tmp_path_factory.mktemp("podman")
    kit = folder / "kit"
    for part in ("train", "conf"):
        shutil.copytree(ROOT / part, kit / part, ignore=shutil.ignore_patterns("__pycache__"))
    with (kit / "conf/measure/report.yaml").open("a") as file:
        file.write("# changed\n")
    path = f"{Path(sys.prefix).resolve()}/bin:/usr/bin:/bin"
    return podman.make_image(folder, kit, {"PATH": path, "PYTHONPATH": podman.KIT})


def test_ranks_run_on_the_launchers_copy_of_the_kit_and_find_their_servers(settings, tmp_path):
    overrides = ("nodes=2", "experiment=strategies", "--only=tiny-nodes2-ps", "container=podman")
    short = ("measure.warm_up_steps=1", "measure.timed_steps=2", "distribution.servers_on=nodes")
    command = launch_command(tmp_path / RESULTS, *overrides, *short, f"container.image={podman.IMAGE}")
    succeed(*command, variables=settings)
    [ps] = records(tmp_path / RESULTS)
    assert (ps.status, ps.environment.image) == ("complete", podman.IMAGE)
    assert ps.environment.image_digest.startswith("sha256:")
    assert ps.weights_differ is None  # servers have the only set of weights: there is nothing to compare
    cluster = json.loads(ps.environment.variables["TF_CONFIG"])["cluster"]
    assert {task: len(set(addresses)) for task, addresses in cluster.items()} == {"worker": 2, "ps": 1, "chief": 1}
    assert [server.rank for server in ps.servers] == [2]  # a separate process, after the workers


def test_a_container_ends_with_its_launcher_and_client_which_are_killed_together(settings, tmp_path):
    """Horovod's ranks time their steps in it before that."""
    endless = ("nodes=2", "--only=tiny-nodes2", "measure.timed_steps=1000000", "container=podman")
    launcher = start(*launch_command(tmp_path, *endless, f"container.image={podman.IMAGE}"), variables=settings)
    wait_for(lambda: in_phase(tmp_path, "timed") and len(ranks(tmp_path)) == 2)
    for process in [psutil.Process(launcher.pid), *psutil.Process(launcher.pid).children(recursive=True)]:
        process.kill()
    launcher.communicate(timeout=TIMEOUT_S)
    began = time.monotonic()
    wait_for(lambda: not ranks(tmp_path))
    assert time.monotonic() - began < init.GRACE_S + 5  # it would measure for minutes
