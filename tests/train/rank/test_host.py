import pytest

from train.rank import host
from train.rank.host import folded

# Of a server with two sockets.
CPUINFO = """processor	: 0
model name	: Intel(R) Xeon(R) Platinum 8480+
flags		: fpu vme sse2 avx fma avx2 avx512f avx512_bf16 amx_tile amx_bf16 hypervisor
processor	: 1
"""
FLAGS = ["avx", "avx2", "fma", "avx512f", "avx512_bf16", "amx_tile", "amx_bf16"]
CPU = "devices/system/cpu"
HUGE_PAGES = "kernel/mm/transparent_hugepage/enabled"
GOVERNOR, CLOCK = (f"{CPU}/cpu{{}}/cpufreq/scaling_{name}" for name in ("governor", "cur_freq"))


@pytest.mark.parametrize(
    ("name", "files", "setting"),
    [
        ("governor", {GOVERNOR.format(0): "powersave", GOVERNOR.format(1): "powersave\n"}, "powersave"),
        ("governor", {GOVERNOR.format(0): "powersave", GOVERNOR.format(1): "performance"}, "performance, powersave"),
        ("governor", {GOVERNOR.format(0): "powersave"}, None),
        ("frequency_mhz", {CLOCK.format(0): "2000000", CLOCK.format(1): "3000000\n"}, 2500.0),
        ("smt", {f"{CPU}/smt/active": "1\n"}, True),
        ("smt", {f"{CPU}/smt/active": "0\n"}, False),
        ("numa_nodes", {f"devices/system/node/{name}": "" for name in ("node0/a", "node1/a", "node_notes")}, 2),
        ("transparent_huge_pages", {HUGE_PAGES: "always [madvise] never\n"}, "madvise"),
        *((name, {}, None) for name in ("smt", "numa_nodes", "transparent_huge_pages", "frequency_max_mhz")),
    ],
)
def test_settings_are_read_from_the_kernel_if_it_has_them(tmp_path, name, files, setting):
    for file, text in files.items():
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(text)
    assert getattr(host.state([0, 1], [], None, tmp_path), name) == setting


def test_the_instruction_sets_are_those_that_matter(tmp_path):
    (tmp_path / "cpuinfo").write_text(CPUINFO)
    assert host.cpu_flags(tmp_path / "cpuinfo") == FLAGS
    assert host.cpu_flags(tmp_path / "nowhere") == []


NODES = [f"node{number:04d}.cluster.example.org" for number in range(256)]


@pytest.mark.parametrize(
    ("names", "text"),
    [
        (["n1"], "n1"),
        (["n3", "n1", "n2", "n7", "n1"], "n[1-3,7]"),
        (["n08", "n09", "n10", "n8", "n100"], "n[08-10], n[8,100]"),  # n08 and n8 are two hosts
        (["a1.x.org", "a2.x.org", "a3.y.org"], "a[1-2].x.org, a3.y.org"),
        (["rack1-n1", "rack1-n2", "rack2-n1"], "rack1-n[1-2], rack2-n1"),
        (["gpu1-ib", "gpu2-ib"], "gpu[1-2]-ib"),
        (["10.0.0.1", "10.0.0.2"], "10.0.0.[1-2]"),
        (["login", "n1", "n"], "login, n1, n"),
        ([], ""),
        (NODES[:100] + NODES[101:], "node[0000-0099,0101-0255].cluster.example.org"),
    ],
)
def test_names_are_folded_as_slurm_writes_them(names, text):
    assert folded(names) == text
