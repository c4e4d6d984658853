import pytest

from train.config.checks import ConfigError
from train.config.compose import load


def hosts(*given):
    return load(["launcher=ssh", f"launcher.hosts=[{','.join(given)}]"]).launcher.hosts


def test_names_and_addresses_are_hosts():
    assert hosts("n1", "'1e3'", "10.0.0.7", "node-1.cluster.example.org", "my_host") == (
        "n1", "1e3", "10.0.0.7", "node-1.cluster.example.org", "my_host",
    )  # fmt: skip


@pytest.mark.parametrize(
    ("given", "instead"),
    [
        ("root@n1", r"launcher.hosts=root@n1: give the name alone, and the user in ~/.ssh/config"),
        ("'n1:2'", "launcher.hosts=n1:2: give the name alone, and the ranks of each host as ranks_per_node"),
        ("'fe80::1%eth0'", "a host is a name or an IPv4 address"),
        ("'-oProxyCommand=x'", "a host is a name or an IPv4 address"),
        ("1e3", r"a name that looks like a number needs quotes: launcher.hosts=\['1e3'\]"),
    ],
)
def test_what_horovods_launcher_would_not_take_is_refused_with_what_to_do(given, instead):
    with pytest.raises(ConfigError, match=instead):
        hosts(given)
