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
GOVERNOR = "cpu{}/cpufreq/scaling_governor"


@pytest.mark.parametrize(
    ("read", "files", "setting"),
    [
        (lambda root: host.governor([0, 1], root), dict.fromkeys((0, 1), "powersave"), "powersave"),
        (lambda root: host.governor([0, 1], root), {0: "powersave", 1: "performance"}, "performance, powersave"),
        (lambda root: host.governor([0, 1], root), {0: "powersave"}, None),
        (host.smt, {"smt/active": "1\n"}, True),
        (host.smt, {"smt/active": "0\n"}, False),
        (host.smt, {}, None),
        (host.numa_nodes, {"node0/a": "", "node1/a": "", "possible": "", "node_notes": ""}, 2),
        (host.numa_nodes, {}, None),
        (lambda root: host.huge_pages(root / "enabled"), {"enabled": "always [madvise] never\n"}, "madvise"),
        (lambda root: host.huge_pages(root / "enabled"), {"enabled": "[always] never"}, "always"),
        (lambda root: host.huge_pages(root / "enabled"), {}, None),
        (lambda root: host.cpu_flags(root / "cpuinfo"), {"cpuinfo": CPUINFO}, FLAGS),  # those that matter
        (lambda root: host.cpu_flags(root / "cpuinfo"), {}, []),
    ],
)
def test_settings_are_read_from_the_kernel_if_it_has_them(tmp_path, read, files, setting):
    for name, text in files.items():
        path = tmp_path / (GOVERNOR.format(name) if isinstance(name, int) else name)
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    assert read(tmp_path) == setting


@pytest.mark.parametrize(
    ("flags", "fast"),
    [
        (["avx512_bf16"], ["fp32", "bf16"]),
        (["amx_tile", "amx_bf16"], ["fp32", "bf16"]),
        (["avx2", "avx512f", "amx_tile"], ["fp32"]),
    ],
)
def test_bf16_needs_one_of_two_instruction_sets(flags, fast):
    assert host.fast_precisions(flags) == fast


NODES = [f"node{number:04d}.cluster.example.org" for number in range(256)]


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
        (NODES[:100] + NODES[101:], "node[0000-0099,0101-0255].cluster.example.org"),
    ],
)
def test_names_are_folded_as_slurm_writes_them(names, text):
    assert folded(names) == text
