"""Ranks in a container whose own copy of the kit is another one: they run on that of the launcher."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers import podman
from tests.helpers.kit import ROOT, launch_command, records, succeed

RESULTS = 'run_10:30, it\'s "mine"'  # as a folder may be called that is mounted
pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(podman.missing() is not None, reason=str(podman.missing())),
]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """The variables of a Podman that has the image of a kit with another file; skips if it cannot run."""
    settings = podman.settings(tmp_path)
    kit = tmp_path / "kit"
    for part in ("train", "conf"):
        shutil.copytree(ROOT / part, kit / part, ignore=shutil.ignore_patterns("__pycache__"))
    with (kit / "conf/measure/report.yaml").open("a") as file:
        file.write("# changed\n")
    path = f"{Path(sys.prefix).resolve()}/bin:/usr/bin:/bin"
    podman.import_image(settings, tmp_path, kit, {"PATH": path, "PYTHONPATH": podman.KIT})
    if error := podman.cannot_run(settings):  # the engine itself: no kit has run yet
        pytest.skip(f"Podman cannot run a container on this machine: {error}")
    return settings


def test_ranks_run_on_the_launchers_copy_of_the_kit_and_find_their_servers(settings, tmp_path):
    asked = ("nodes=2", "experiment=strategies", "--only=tiny-nodes2-horovod,tiny-nodes2-ps", "container=podman")
    short = ("measure.warm_up_steps=1", "measure.timed_steps=2", "distribution.servers_on=nodes")
    command = launch_command(tmp_path / RESULTS, *asked, *short, f"container.image={podman.IMAGE}")
    succeed(*command, variables=settings)
    made = {record.arm: record for record in records(tmp_path / RESULTS)}
    assert {arm: record.status for arm, record in made.items()} == dict.fromkeys(("horovod", "ps"), "complete")
    assert {record.environment.image for record in made.values()} == {podman.IMAGE}
    assert {record.environment.image_digest[:7] for record in made.values()} == {"sha256:"}
    # There is one set of weights where servers have them: nothing to compare.
    assert {arm: record.weights_differ for arm, record in made.items()} == {"horovod": False, "ps": None}
    cluster = json.loads(made["ps"].environment.variables["TF_CONFIG"])["cluster"]
    assert {task: len(set(places)) for task, places in cluster.items()} == {"worker": 2, "ps": 1, "chief": 1}
    assert [server.rank for server in made["ps"].servers] == [2]  # a process of its own, after the workers
