"""Counters of cores, and of energy from a folder that imitates /sys/class/powercap of two sockets.

No test machine has RAPL. The counters follow Linux's Documentation/power/powercap/powercap.rst.
"""

import os
import time
from pathlib import Path

import pytest

from record.schema import CoreUse
from train.rank import counters
from train.rank.counters import Counter, Meter
from train.rank.gpus import GpuReading

counted = pytest.mark.skipif(not counters.STAT.exists(), reason="no /proc/stat")
STAT = """cpu  100 0 50 900 5 1 2 30 0 0
cpu0 60 10 20 400 5 1 2 10 0 0
cpu1 40 0 30 500 0 0 0 20 0 0
cpu10 500 0 0 0 0 0 0 0 0 0
intr 1 2 3
"""


def test_the_times_of_the_requested_cores(monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    assert counters.core_times(STAT, [0]) == pytest.approx((0.9, 0.1))
    assert counters.core_times(STAT, [0, 1]) == pytest.approx((1.6, 0.3))


@counted
def test_a_loop_of_this_process_is_its_own_time(monkeypatch):
    begin = counters.read_counters(Meter())
    while time.process_time() - begin.own_s < 0.2:
        pass
    used = counters.counted_since(begin, Meter())
    assert 0.2 <= used.own_s <= used.wall_s + 0.01
    assert used.busy_s > 0.15  # in ticks
    assert used.moved_to == []
    assert (used.energy_j, used.gpu_energy_j) == (None, None)  # this rank is not to count them


def test_spans_are_added_and_an_unknown_one_leaves_the_sum_unknown():
    first = CoreUse(1.0, 0.5, 0.75, 0.25, 0.125, 2000.0, energy_j=3.0, gpu_energy_j=4.0, gpu_clock_mhz=1000.0)
    second = CoreUse(2.0, 1.5, 1.75, 0.0, frequency_mhz=3000.0)
    moved = CoreUse(1.0, 1.0, 1.0, 0.0, moved_to=[3, 1])
    assert counters.total([moved, moved]).moved_to == [1, 3]
    assert counters.total([first, second]) == CoreUse(3.0, 2.0, 2.5, 0.25, None, 2500.0, None, None, 1000.0)
    twice = counters.total([first, first])
    assert (twice.energy_j, twice.gpu_energy_j, twice.delay_s) == (6.0, 8.0, 0.25)
    assert counters.total([first, None]) is None
    assert counters.total([]) is None


def test_the_delay_is_that_of_the_threads_that_ran_most():
    begin = {"1": (5.0, 1.0), "2": (0.5, 9.0)}
    end = {"1": (6.0, 1.25), "2": (0.6, 9.9), "3": (0.3, 0.1)}  # 1.0, 0.1 and 0.3 s of CPU time
    assert counters.delay_s(begin, end, cores=1) == pytest.approx(0.25)
    assert counters.delay_s(begin, end, cores=2) == pytest.approx(0.25 + 0.1)
    assert counters.delay_s({}, {}, cores=1) is None


def test_threads_that_end_and_kernels_that_do_not_count_are_left_out(tmp_path):
    for name, text in (("10", "2500000000 500000000 7\n"), ("11", "0 0\n"), ("12", "nothing\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "schedstat").write_text(text)
    (tmp_path / "13").mkdir()
    assert counters.thread_times(tmp_path) == {"10": (2.5, 0.5), "11": (0.0, 0.0)}
    assert counters.thread_times(tmp_path / "nowhere") == {}


def test_steal_at_the_start_is_a_share_of_the_time_of_all_cores():
    assert counters.steal_fraction((10.0, 1.0), (14.0, 1.5), cores=2) == pytest.approx(0.5 / 8)
    assert counters.steal_fraction((10.0, 1.0), (10.0, 1.0), cores=2) is None
    assert counters.steal_fraction(None, (14.0, 1.5), cores=2) is None


RANGE_J = 262_143.328850  # of an Intel server


def count(power, package: str, joules: float) -> None:
    """Set a counter to so many joules."""
    (power / package / "energy_uj").write_text(f"{round(joules * 1e6)}\n")


@pytest.fixture
def power(tmp_path, monkeypatch):
    """Two packages, a part of one of them, and one of them again by MMIO."""
    for package, joules in (("intel-rapl:0", 5), ("intel-rapl:1", 7), ("intel-rapl:0:0", 3), ("intel-rapl-mmio:0", 5)):
        (tmp_path / package).mkdir()
        count(tmp_path, package, joules)
        (tmp_path / package / "max_energy_range_uj").write_text(f"{round(RANGE_J * 1e6)}\n")
    (tmp_path / "intel-rapl").mkdir()  # the control type, without a counter
    monkeypatch.setattr(counters, "POWER", tmp_path)
    return tmp_path


def test_each_package_counts_once(power):
    assert counters.energy_counters(power) == [Counter(5.0, RANGE_J), Counter(7.0, RANGE_J)]
    (power / "amd-rapl:0").mkdir()
    count(power, "amd-rapl:0", 1.5)
    assert counters.energy_counters(power)[0] == Counter(1.5, None)


@counted
def test_the_energy_of_a_span_is_that_of_all_packages(power):
    meter = Meter(
        True,
        gpu=iter([GpuReading(energy_j=10.0, clock_mhz=1200.0), GpuReading(energy_j=12.5, clock_mhz=1100.0)]).__next__,
    )
    begin = counters.read_counters(meter)
    count(power, "intel-rapl:0", 9)
    count(power, "intel-rapl:1", 7.25)
    used = counters.counted_since(begin, meter)
    assert (used.energy_j, used.gpu_energy_j, used.gpu_clock_mhz) == (4.25, 2.5, 1100.0)


def test_a_counter_that_wrapped_is_continued_and_unknown_without_its_range():
    begin, end = ([Counter(at, RANGE_J) for at in joules] for joules in ((RANGE_J - 10, 1.0), (5.0, 2.0)))
    assert counters.processors_j(begin, end) == pytest.approx(15 + 1)
    assert counters.processors_j([Counter(9.0, None)], [Counter(5.0, None)]) is None
    assert counters.processors_j([], []) is None
    assert counters.processors_j(begin, end[:1]) is None  # a counter has gone
    assert [counters.gpu_j(*joules) for joules in ((None, 1.0), (5.0, 1.0), (1.0, 1.5))] == [None, None, 0.5]


def test_the_reason_why_no_energy_can_be_read(power, tmp_path):
    assert counters.why_no_energy(power) is None
    assert "no RAPL counter in" in counters.why_no_energy(tmp_path / "nowhere")
    (power / "intel-rapl:1/energy_uj").write_text("nothing\n")
    assert counters.energy_counters(power) == []
    assert "intel-rapl:1/energy_uj: invalid literal" in counters.why_no_energy(power)


def test_a_counter_that_only_root_may_read_is_reported(power, monkeypatch):
    """As on most machines since 2020. Reading is made to fail, as the tests may run as root, who may read all files."""
    read_text = Path.read_text

    def refusing(path: Path) -> str:
        if path.name == "energy_uj":
            raise PermissionError(13, "Permission denied", str(path))
        return read_text(path)

    monkeypatch.setattr(Path, "read_text", refusing)
    assert counters.why_no_energy(power) == f"only root may read {power / 'intel-rapl:0/energy_uj'}"
    assert counters.energy_counters(power) == []
