import os

import pytest

from train.rank import host
from train.rank.host import folded, hosts_by_text

# Of a server with two sockets, as Linux shows it.
CPUINFO = """processor	: 0
model name	: Intel(R) Xeon(R) Platinum 8480+
flags		: fpu vme sse2 avx fma avx2 avx512f avx512_bf16 amx_tile amx_bf16 hypervisor
processor	: 1
"""


@pytest.fixture
def machine(tmp_path):
    """A folder like /sys/devices/system/cpu with two cores, whose governors a test may change."""
    for core in (0, 1):
        folder = tmp_path / f"cpu{core}/cpufreq"
        folder.mkdir(parents=True)
        (folder / "scaling_governor").write_text("powersave\n")
    (tmp_path / "smt").mkdir()
    (tmp_path / "smt/active").write_text("1\n")
    return tmp_path


def test_the_governor_of_all_cores_and_each_where_they_differ(machine):
    assert host.governor([0, 1], machine) == "powersave"
    (machine / "cpu1/cpufreq/scaling_governor").write_text("performance\n")
    assert host.governor([0, 1], machine) == "performance, powersave"
    assert host.governor([0, 2], machine) is None


def test_hardware_threads_are_in_use_or_not_or_unknown(machine):
    assert host.smt(machine) is True
    (machine / "smt/active").write_text("0\n")
    assert host.smt(machine) is False
    assert host.smt(machine / "nowhere") is None


def test_numa_nodes_are_counted(tmp_path):
    for name in ("node0", "node1", "possible", "node_notes"):
        (tmp_path / name).mkdir()
    assert host.numa_nodes(tmp_path) == 2
    assert host.numa_nodes(tmp_path / "nowhere") is None


@pytest.mark.parametrize(("text", "chosen"), [("always [madvise] never\n", "madvise"), ("[always] never", "always")])
def test_huge_pages_are_what_stands_in_brackets(tmp_path, text, chosen):
    (tmp_path / "enabled").write_text(text)
    assert host.huge_pages(tmp_path / "enabled") == chosen
    assert host.huge_pages(tmp_path / "nowhere") is None


def test_only_the_instruction_sets_that_matter_are_kept(tmp_path):
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    flags = host.cpu_flags(tmp_path / "cpuinfo")
    assert flags == ["avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"]
    assert host.cpu_flags(tmp_path / "nowhere") == []


@pytest.mark.parametrize(
    ("flags", "fast"),
    [(["avx2", "fma"], ["fp32"]), (["avx512_bf16"], ["fp32", "bf16"]), (["amx_tile", "amx_bf16"], ["fp32", "bf16"]),
     (["avx512f", "amx_tile"], ["fp32"])],
)  # fmt: skip
def test_bf16_needs_one_of_two_instruction_sets(flags, fast):
    assert host.fast_precisions(flags) == fast


def test_this_machine_tells_its_load_and_its_processor():
    here = host.state(sorted(os.sched_getaffinity(0)), [], None)
    assert here.load >= 0
    assert here.numa_nodes is None or here.numa_nodes >= 1


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
