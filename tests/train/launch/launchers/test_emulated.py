import pytest

from tests.helpers.launches import planned
from train.config.checks import ConfigError
from train.launch.emulate import networks


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
