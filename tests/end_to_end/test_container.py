"""Ranks in a container with a different copy of the kit: they run on the copy of the launcher."""

import json
import shutil
import sys
from pathlib import Path

import pytest

from tests.helpers import ROOT, podman
from tests.helpers.kit import launch_command, records, succeed

RESULTS = 'run_10:30, it\'s "mine"'  # a mounted folder can have such a name
pytestmark = [
    pytest.mark.end_to_end,
    pytest.mark.skipif(podman.missing() is not None, reason=str(podman.missing())),
]


@pytest.fixture
def settings(tmp_path: Path) -> dict[str, str]:
    """The variables of a Podman whose image has a kit with a changed file; skips if it cannot run."""
    kit = tmp_path / "kit"
    for part in ("train", "conf"):
        shutil.copytree(ROOT / part, kit / part, ignore=shutil.ignore_patterns("__pycache__"))
    with (kit / "conf/measure/report.yaml").open("a") as file:
        file.write("# changed\n")
    path = f"{Path(sys.prefix).resolve()}/bin:/usr/bin:/bin"
    return podman.make_image(tmp_path, kit, {"PATH": path, "PYTHONPATH": podman.KIT})


def test_ranks_run_on_the_launchers_copy_of_the_kit_and_find_their_servers(settings, tmp_path):
    overrides = ("nodes=2", "experiment=strategies", "--only=tiny-nodes2-horovod,tiny-nodes2-ps", "container=podman")
    short = ("measure.warm_up_steps=1", "measure.timed_steps=2", "distribution.servers_on=nodes")
    command = launch_command(tmp_path / RESULTS, *overrides, *short, f"container.image={podman.IMAGE}")
    succeed(*command, variables=settings)
    arms = {record.arm: record for record in records(tmp_path / RESULTS)}
    assert {arm: record.status for arm, record in arms.items()} == dict.fromkeys(("horovod", "ps"), "complete")
    assert {record.environment.image for record in arms.values()} == {podman.IMAGE}
    assert {record.environment.image_digest[:7] for record in arms.values()} == {"sha256:"}
    # Servers have the only set of weights: there is nothing to compare.
    assert {arm: record.weights_differ for arm, record in arms.items()} == {"horovod": False, "ps": None}
    cluster = json.loads(arms["ps"].environment.variables["TF_CONFIG"])["cluster"]
    assert {task: len(set(addresses)) for task, addresses in cluster.items()} == {"worker": 2, "ps": 1, "chief": 1}
    assert [server.rank for server in arms["ps"].servers] == [2]  # a separate process, after the workers
