from types import SimpleNamespace
from unittest.mock import Mock

import psutil
import pytest

from train.config.checks import ConfigError
from train.config.compose import load
from train.launch import networks
from train.launch.job import Nodes
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.emulated import pids_of_nodes


def test_networks_that_cannot_be_made_are_an_error(monkeypatch):
    launcher, config = LAUNCHERS["emulated"], load(["launcher.separate_networks=true"])
    monkeypatch.setattr(networks, "missing", lambda: None)
    launcher.check_machine(config)
    monkeypatch.setattr(networks, "missing", lambda: "network namespaces need root")
    with pytest.raises(ConfigError, match="separate_networks=True: network namespaces need root"):
        launcher.check_machine(config)


def process(pid: int, **variables: str) -> SimpleNamespace:
    return SimpleNamespace(pid=pid, environ=lambda: variables)


def test_processes_are_those_of_the_node_of_their_rank():
    processes = [
        process(10),  # the launcher
        process(11, HOROVOD_RANK="0"),
        process(12, HOROVOD_RANK="1"),
        process(13, OMPI_COMM_WORLD_RANK="2"),
        process(14, HOROVOD_RANK="3"),
        SimpleNamespace(pid=15, environ=Mock(side_effect=psutil.NoSuchProcess(15))),
        process(16, HOROVOD_RANK="3"),  # a child of it
    ]
    assert pids_of_nodes(Nodes(("localhost",) * 4), processes) == [[11], [12], [13], [14, 16]]
    assert pids_of_nodes(Nodes(("localhost",) * 2, 2), processes) == [[11, 12], [13, 14, 16]]
    # one rank without a launcher
    assert pids_of_nodes(Nodes(("localhost",)), [process(10), process(11, HOROVOD_RANK="0")]) == [[10, 11]]
