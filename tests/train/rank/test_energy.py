"""Energy, from a folder of a test's own that imitates /sys/class/powercap of a server with two sockets.

No machine of the tests has RAPL: its counters are those of Linux's Documentation/power/powercap/powercap.rst.
"""

from pathlib import Path

import pytest

from train.rank import core_use, energy
from train.rank.energy import Counter, Meter
from train.rank.gpus import GpuCount

RANGE_J = 262_143.328850  # of an Intel server


def count(power, package: str, joules: float) -> None:
    """Let a counter stand at so many joules."""
    (power / package / "energy_uj").write_text(f"{round(joules * 1e6)}\n")


@pytest.fixture
def power(tmp_path, monkeypatch):
    """Two packages, with a part of one, and one of them once more by MMIO."""
    for package, joules in (("intel-rapl:0", 5), ("intel-rapl:1", 7), ("intel-rapl:0:0", 3), ("intel-rapl-mmio:0", 5)):
        (tmp_path / package).mkdir()
        count(tmp_path, package, joules)
        (tmp_path / package / "max_energy_range_uj").write_text(f"{round(RANGE_J * 1e6)}\n")
    (tmp_path / "intel-rapl").mkdir()  # the control type, without a counter
    monkeypatch.setattr(energy, "POWER", tmp_path)
    return tmp_path


def test_each_package_counts_once_and_only_where_a_rank_is_to_count_the_host(power):
    assert energy.packages(power) == [Counter(5.0, RANGE_J), Counter(7.0, RANGE_J)]
    assert Meter(processors=True).read().processors == tuple(energy.packages(power))
    assert Meter().read() == energy.Reading()


def test_amd_has_counters_too(tmp_path):
    (tmp_path / "amd-rapl:0").mkdir()
    count(tmp_path, "amd-rapl:0", 1.5)
    assert energy.packages(tmp_path) == [Counter(1.5, None)]


@pytest.mark.skipif(not core_use.STAT.exists(), reason="no /proc/stat")
def test_the_energy_of_a_span_is_that_of_all_packages(power):
    meter = Meter(True, gpu=iter([GpuCount(10.0, 1200.0), GpuCount(12.5, 1100.0)]).__next__)
    begin = core_use.read(meter)
    count(power, "intel-rapl:0", 9)
    count(power, "intel-rapl:1", 7.25)
    used = core_use.since(begin, meter)
    assert (used.energy_j, used.gpu_energy_j, used.gpu_clock_mhz) == (4.25, 2.5, 1100.0)


def test_a_counter_that_began_again_is_continued_and_not_known_without_its_range():
    begin, end = [Counter(RANGE_J - 10, RANGE_J), Counter(1.0, RANGE_J)], [Counter(5.0, RANGE_J), Counter(2.0, RANGE_J)]
    assert energy.processors_j(begin, end) == pytest.approx(15 + 1)
    assert energy.processors_j([Counter(9.0, None)], [Counter(5.0, None)]) is None
    assert energy.processors_j([], []) is None
    assert energy.processors_j(begin, end[:1]) is None  # a counter that was gone


@pytest.mark.parametrize(
    ("begin", "end", "used"), [(None, 1.0, None), (1.0, None, None), (5.0, 1.0, None), (1, 1.5, 0.5)]
)
def test_a_gpu_that_does_not_count_or_was_reset(begin, end, used):
    assert energy.gpu_j(begin, end) == used


def test_why_nothing_can_be_read(power, tmp_path, monkeypatch):
    assert energy.why_unreadable(power) is None
    assert "no RAPL counter in" in energy.why_unreadable(tmp_path / "nowhere")
    (empty := tmp_path / "empty").mkdir()
    assert "a virtual machine" in energy.why_unreadable(empty)
    count(power, "intel-rapl:1", 0)
    (power / "intel-rapl:1/energy_uj").write_text("nothing\n")
    assert energy.packages(power) == []
    assert "intel-rapl:1/energy_uj: invalid literal" in energy.why_unreadable(power)


def test_a_counter_that_only_root_may_read_is_reported(power, monkeypatch):
    """As on most machines since 2020. The tests may run as root, whom no file refuses: so reading it is what fails."""
    read_text = Path.read_text

    def refusing(path: Path) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path)

    monkeypatch.setattr(Path, "read_text", refusing)
    assert energy.why_unreadable(power) == f"only root may read {power / 'intel-rapl:0/energy_uj'}"
    assert energy.packages(power) == []
