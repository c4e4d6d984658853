"""The commands that make networks. tests/end_to_end/test_emulated.py runs them, and times an allreduce."""

import pytest

from train.launch import networks


@pytest.mark.parametrize(("mbit_per_s", "rule"), [(100, "tbf rate 100mbit burst 128kb latency 50ms"), (None, "pfifo")])
def test_a_limit_holds_at_both_ends_of_each_link(mbit_per_s, rule):
    assert [" ".join(command) for command in networks.limit_commands("kit7", 1, mbit_per_s)] == [
        f"tc -n kit7-switch qdisc replace dev port0 root {rule}",
        f"tc -n kit7-n0 qdisc replace dev kit0 root {rule}",
    ]


def test_every_node_has_its_address():
    addresses = [command[5] for command in networks.commands("kit7", 300) if command[3:5] == ["addr", "add"]]
    assert (addresses[1], addresses[251]) == ("198.18.0.1/16", "198.18.1.1/16")
    assert len(set(addresses)) == 301
