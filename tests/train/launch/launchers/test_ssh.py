from dataclasses import replace
from unittest.mock import Mock

from tests.helpers.launches import make_plan
from train.launch.launchers import LAUNCHERS, hosts
from train.launch.launchers.base import Gpus
from train.launch.launchers.hosts import Host

SSH = LAUNCHERS["ssh"]
SMALL = Host("node-a", 4, 8, ["A"], "Xeon", 2**30, sees_results=True, has_image=True, has_singularity=True,
             cpu_flags=["avx2"], name="a")  # fmt: skip
LARGE = replace(SMALL, name="b", hostname="node-b", cores=8, gpus=["A", "A"], free_bytes=2**34)


def test_the_smallest_host_decides_on_cores_and_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(hosts, "ask", ask := Mock(return_value=(SMALL, LARGE)))
    overrides = ("experiment=weak_scaling", "model=tiny", "nodes=2", "launcher=ssh", "launcher.hosts=[a,b]")
    config = make_plan(*overrides, f"results={tmp_path}").points[-1].config
    assert config.system.cores_per_node == 4
    assert make_plan(*overrides, f"results={tmp_path}", "system.smt=true").points[-1].config.system.cores_per_node == 8
    assert SSH.free_bytes(config) == 2**30
    assert SSH.gpus(config) == [Gpus(1, 1, "a shows"), Gpus(1, 2, "b shows")]
    assert SSH.hosts(config) == ("a", "b")
    assert SSH.cpu_flags(config) == {"a": SMALL.cpu_flags, "b": LARGE.cpu_flags}
    [warning] = SSH.warnings(config)
    assert "every step waits for the slowest host: a: 4 cores, Xeon, 1 x A; " in warning
    assert {call.args for call in ask.call_args_list} == {(("a", "b"), tmp_path, None)}
