import pytest

from train.launch import networks


def test_the_commands_for_one_node():
    assert [" ".join(command) for command in networks.commands("kit7", 1)] == [
        "ip netns add kit7-switch",
        "ip -n kit7-switch link set lo up",
        "ip -n kit7-switch link add kit0 type bridge",
        "ip -n kit7-switch addr add 198.18.255.254/16 dev kit0",
        "ip -n kit7-switch link set kit0 up",
        "ip netns add kit7-n0",
        "ip -n kit7-n0 link set lo up",
        "ip -n kit7-switch link add port0 type veth peer name kit0 netns kit7-n0",
        "ip -n kit7-switch link set port0 master kit0 up",
        "ip -n kit7-n0 addr add 198.18.0.1/16 dev kit0",
        "ip -n kit7-n0 link set kit0 up",
    ]


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
