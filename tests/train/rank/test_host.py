import os

import pytest

from train.rank import host

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
