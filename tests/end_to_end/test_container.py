"""Ranks in a container whose own copy of the kit is another one: a run on that copy stops before anything is timed."""

import json
import shutil
import socket
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import podman
from tests.helpers.kit import ROOT, launch_command, records, run

CHANGED = "conf/measure/report.yaml"
RESULTS = 'run_10:30, it\'s "mine"'  # as a folder may be called that is mounted
pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(podman.missing() is not None, reason=str(podman.missing())),
]


@pytest.fixture
def measured(tmp_path: Path) -> Callable[..., tuple[int, str]]:
    """Measure one point in the image of a kit in which one file is another one: exit status and output.

    The function takes its number of nodes, overrides, and environment variables of the image.
    """
    settings = podman.settings(tmp_path)
    kit = tmp_path / "kit"
    for part in ("train", "conf"):
        shutil.copytree(ROOT / part, kit / part, ignore=shutil.ignore_patterns("__pycache__"))
    with (kit / CHANGED).open("a") as file:
        file.write("# changed\n")
    path = f"{Path(sys.prefix).resolve()}/bin:/usr/bin:/bin"

    def measure(nodes: int, *overrides: str, **variables: str) -> tuple[int, str]:
        podman.import_image(settings, tmp_path, kit, {"PATH": path, "PYTHONPATH": podman.KIT, **variables})
        if error := podman.cannot_run(settings):  # the engine itself: no kit has run yet
            pytest.skip(f"Podman cannot run a container on this machine: {error}")
        asked = (f"nodes={nodes}", "container=podman", f"container.image={podman.IMAGE}", *overrides)
        return run(*launch_command(tmp_path / RESULTS, *asked), variables=settings)

    return measure


def test_a_run_on_the_images_copy_stops_and_names_host_and_file(measured, tmp_path):
    # Python then prefers PYTHONPATH to the working folder, which is the launcher's copy.
    status, output = measured(1, "--only=tiny-nodes1", PYTHONSAFEPATH="1")
    assert status == 1, output
    (record,) = records(tmp_path / RESULTS)
    assert record.status == "failed"
    assert record.failure.reason.startswith(
        f"rank 0 ({socket.gethostname()}): other files than the launcher: {CHANGED}."
    )
    assert not any({"warm_up", "timed"} & {*rank.phases_s} for rank in record.ranks)
    assert CHANGED in output


def test_ranks_run_on_the_launchers_copy_of_the_kit_and_find_their_servers(measured, tmp_path):
    short = ("measure.warm_up_steps=1", "measure.timed_steps=2", "distribution.servers_on=nodes")
    points = "--only=tiny-nodes2-horovod,tiny-nodes2-ps"
    status, output = measured(2, "experiment=strategies", points, *short)
    assert status == 0, output
    made = {record.arm: record for record in records(tmp_path / RESULTS)}
    assert {arm: record.status for arm, record in made.items()} == dict.fromkeys(("horovod", "ps"), "complete")
    assert {record.environment.image for record in made.values()} == {podman.IMAGE}
    # There is one set of weights where servers have them: nothing to compare.
    assert {arm: record.weights_differ for arm, record in made.items()} == {"horovod": False, "ps": None}
    cluster = json.loads(made["ps"].environment.variables["TF_CONFIG"])["cluster"]
    assert {task: len(set(places)) for task, places in cluster.items()} == {"worker": 2, "ps": 1, "chief": 1}
    assert [server.rank for server in made["ps"].servers] == [2]  # a process of its own, after the workers
