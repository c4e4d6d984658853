from dataclasses import replace

import pytest

from tests.helpers.launches import planned
from train.launch.launchers import LAUNCHERS, hosts
from train.launch.launchers.base import Gpus
from train.launch.launchers.hosts import Host

SSH = LAUNCHERS["ssh"]
SMALL = Host("a", "node-a", 4, ["A"], "Xeon", 2**30, sees_results=True, has_image=True, has_singularity=True,
             cpu_flags=["avx2"])  # fmt: skip
LARGE = replace(SMALL, name="b", hostname="node-b", cores=8, gpus=["A", "A"], free_bytes=2**34)


@pytest.fixture
def asked(monkeypatch):
    """Two hosts that answer; what they are asked."""
    output = []

    def ask(*what):
        output.append(what)
        return (SMALL, LARGE)

    monkeypatch.setattr(hosts, "ask", ask)
    return output


def test_the_smallest_host_decides_on_cores_and_memory(asked, tmp_path):
    plan = planned(
        *("experiment=weak_scaling", "model=tiny", "nodes=2", "launcher=ssh", "launcher.hosts=[a,b]"),
        f"results={tmp_path}",
    )
    config = plan.points[-1].config
    assert config.system.cores_per_node == 4
    assert SSH.free_bytes(config) == 2**30
    assert SSH.gpus(config) == [Gpus(1, 1, "a shows"), Gpus(1, 2, "b shows")]
    assert SSH.hosts(config) == ("a", "b")
    assert set(asked) == {(("a", "b"), tmp_path, None)}
    assert SSH.cpu_flags(config) == {"a": SMALL.cpu_flags, "b": LARGE.cpu_flags}
    [warning] = SSH.warnings(config)
    assert warning.startswith(
        "heterogeneous hardware, and every step waits for the slowest host: a: 4 cores, Xeon, 1 x A; "
    )


def test_the_exit_status_of_ssh_is_not_the_ranks():
    assert SSH.explain_exit(255).endswith("ssh ended with exit status 255")
    assert SSH.explain_exit(1) is None
    assert LAUNCHERS["local"].explain_exit(255) is None
