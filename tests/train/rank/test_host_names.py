import pytest

from train.rank.host_names import folded, hosts_by_text


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n1"], "n1"),
        (["n3", "n1", "n2", "n7"], "n[1-3,7]"),
        (["n08", "n09", "n10", "n8", "n100"], "n[08-10], n[8,100]"),  # n08 and n8 are two hosts
        (["n0", "n1"], "n[0-1]"),
        (["a1.x.org", "a2.x.org", "a3.y.org"], "a[1-2].x.org, a3.y.org"),
        (["rack1-n1", "rack1-n2", "rack2-n1"], "rack1-n[1-2], rack2-n1"),
        (["gpu1-ib", "gpu2-ib"], "gpu[1-2]-ib"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
        (["login", "n1", "n"], "login, n1, n"),
        (["n1", "n1"], "n1"),
        ([], ""),
    ],
)
def test_names_are_folded_as_slurm_writes_them(names, text):
    assert folded(names) == text


def test_256_hosts_are_one_short_text():
    names = [f"node{number:04d}.cluster.example.org" for number in range(256)]
    assert folded(names) == "node[0000-0255].cluster.example.org"
    assert folded(name for name in names if name != names[100]) == "node[0000-0099,0101-0255].cluster.example.org"


def test_equal_messages_are_reported_once():
    assert hosts_by_text([("n1", "down"), ("n3", "full"), ("n2", "down")]) == {"down": "n[1-2]", "full": "n3"}
