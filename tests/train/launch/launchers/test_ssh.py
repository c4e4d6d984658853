from dataclasses import replace
from unittest.mock import Mock

import pytest

from tests.helpers.launch_plans import make_plan
from train.config.checks import ConfigError
from train.launch.launchers import LAUNCHERS, hosts
from train.launch.launchers.hosts import SshHost

SSH = LAUNCHERS["ssh"]
SMALL = SshHost("node-a", 4, 8, ["A"], "Xeon", 2**30, sees_results=True, has_image=True, has_singularity=True,
             cpu_flags=["avx2"], name="a")  # fmt: skip
LARGE = replace(SMALL, name="b", hostname="node-b", cores=8, gpus=["A", "A"], free_bytes=2**34)


def test_the_smallest_host_decides_on_cores_and_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "ask", ask := Mock(return_value=(SMALL, LARGE)))
    overrides = ("experiment=weak_scaling", "model=tiny", "nodes=2", "launcher=ssh", "launcher.hosts=[a,b]")
    config = make_plan(*overrides, f"results={tmp_path}").points[-1].config
    assert config.system.cores_per_node == 4
    assert make_plan(*overrides, f"results={tmp_path}", "system.smt=true").points[-1].config.system.cores_per_node == 8
    assert [vars(hardware) for hardware in SSH.hardware(config)] == [
        {"host": "a", "gpus": 1, "free_bytes": 2**30, "cpu_flags": ["avx2"]},
        {"host": "b", "gpus": 2, "free_bytes": 2**34, "cpu_flags": ["avx2"]},
    ]
    assert SSH.hosts(config) == ("a", "b")
    [warning] = SSH.warnings(config)
    assert "every step waits for the slowest host: a: 4 cores, Xeon, 1 x A; " in warning
    assert {call.args for call in ask.call_args_list} == {(("a", "b"), tmp_path, None)}


def test_on_gpus_a_node_has_a_rank_for_each_of_the_fewest(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "ask", Mock(return_value=(LARGE, replace(LARGE, name="c", gpus=["A"] * 3))))
    overrides = ("experiment=weak_scaling", "model=tiny", "nodes=2", "launcher=ssh", "launcher.hosts=[b,c]")
    assert make_plan(*overrides, "device=gpu", f"results={tmp_path}").points[-1].config.ranks_per_node == 2


@pytest.mark.parametrize(
    ("names", "why"),
    [
        ("n1,root@n2", "root@n2: give the name alone, and the user in ~/.ssh/config"),
        ("n1,n2", "no command ssh on this"),
    ],
)
def test_a_name_with_a_user_and_a_machine_without_ssh_are_named(tmp_path, monkeypatch, names, why):
    monkeypatch.setenv("PATH", str(tmp_path))
    overrides = ("experiment=weak_scaling", "model=tiny", "nodes=2", "launcher=ssh", f"launcher.hosts=[{names}]")
    with pytest.raises(ConfigError, match=why):
        make_plan(*overrides, f"results={tmp_path}")
