from dataclasses import dataclass

import psutil
import pytest

from tests.helpers.launches import planned
from train.config.checks import ConfigError
from train.launch import networks
from train.launch.job import Nodes
from train.launch.launchers.emulated import pids_of_nodes


def test_the_user_reads_how_nodes_are_emulated():
    plan = planned("experiment=weak_scaling", "model=resnet50", "nodes=8", no_quotas=None)
    [note] = plan.launcher.notes(plan.points[0].config)
    assert note.startswith("Nodes are emulated: each is limited to 20 % of a core from its warm-up on.")
    plan = planned("experiment=weak_scaling", "model=resnet50", "nodes=2")
    assert plan.launcher.notes(plan.points[0].config) == []


def test_networks_that_cannot_be_made_are_an_error(monkeypatch):
    plan = planned("experiment=network_sweep", "model=tiny", no_quotas=None)
    monkeypatch.setattr(networks, "missing", lambda: None)
    plan.launcher.check_machine(plan.points[0].config)
    monkeypatch.setattr(networks, "missing", lambda: "network namespaces need root")
    with pytest.raises(ConfigError, match="separate_networks=True: network namespaces need root"):
        plan.launcher.check_machine(plan.points[0].config)


@dataclass
class Process:
    """What is asked of a process of psutil."""

    pid: int
    variables: dict[str, str] | None  # None: it has ended

    def environ(self) -> dict[str, str]:
        """Its environment."""
        if self.variables is None:
            raise psutil.NoSuchProcess(self.pid)
        return self.variables


def nodes(count: int, ranks_per_node: int = 1) -> Nodes:
    return Nodes(("localhost",) * count, ranks_per_node)


def test_processes_are_those_of_the_node_of_their_rank():
    processes = [
        Process(10, {}),  # the launcher
        Process(11, {"HOROVOD_RANK": "0"}),
        Process(12, {"HOROVOD_RANK": "1"}),
        Process(13, {"OMPI_COMM_WORLD_RANK": "2"}),
        Process(14, {"HOROVOD_RANK": "3"}),
        Process(15, None),
        Process(16, {"HOROVOD_RANK": "3"}),  # a child of it
    ]
    assert pids_of_nodes(nodes(4), processes) == [[11], [12], [13], [14, 16]]
    assert pids_of_nodes(nodes(2, 2), processes) == [[11, 12], [13, 14, 16]]


def test_one_rank_without_a_launcher_is_the_node():
    assert pids_of_nodes(nodes(1), [Process(10, {}), Process(11, {"HOROVOD_RANK": "0"})]) == [[10, 11]]
