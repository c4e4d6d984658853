import os
import time

import pytest

from train.rank import core_use
from train.rank.energy import Meter
from train.record.record import CoreUse

STAT = """cpu  100 0 50 900 5 1 2 30 0 0
cpu0 60 10 20 400 5 1 2 10 0 0
cpu1 40 0 30 500 0 0 0 20 0 0
cpu10 500 0 0 0 0 0 0 0 0 0
intr 1 2 3
"""


def test_the_times_of_the_cores_that_were_asked_for(monkeypatch):
    monkeypatch.setattr(os, "sysconf", lambda name: 100)
    assert core_use.core_times(STAT, [0]) == pytest.approx((0.9, 0.1))
    assert core_use.core_times(STAT, [0, 1]) == pytest.approx((1.6, 0.3))


@pytest.mark.skipif(not core_use.STAT.exists(), reason="no /proc/stat")
def test_a_loop_of_this_process_is_its_own_time(monkeypatch):
    begin = core_use.read(Meter())
    while time.process_time() - begin.own_s < 0.2:
        pass
    used = core_use.since(begin, Meter())
    assert 0.2 <= used.own_s <= used.wall_s + 0.01
    assert used.busy_s > 0.15  # in ticks
    assert used.energy_j is None


def test_spans_are_added_and_one_that_is_not_known_leaves_the_sum_unknown():
    one = CoreUse(
        1.0, 0.5, 0.75, 0.25, delay_s=0.125, frequency_mhz=2000.0, energy_j=3.0, gpu_energy_j=4.0, gpu_clock_mhz=1000.0
    )
    two = CoreUse(2.0, 1.5, 1.75, 0.0, frequency_mhz=3000.0)
    assert core_use.total([one, two]) == CoreUse(3.0, 2.0, 2.5, 0.25, None, 2500.0, None, None, 1000.0)
    twice = core_use.total([one, one])
    assert (twice.energy_j, twice.gpu_energy_j, twice.delay_s) == (6.0, 8.0, 0.25)
    assert core_use.total([one, None]) is None
    assert core_use.total([]) is None


def test_the_delay_is_that_of_the_threads_that_ran_most():
    begin = {"1": (5.0, 1.0), "2": (0.5, 9.0)}
    end = {"1": (6.0, 1.25), "2": (0.6, 9.9), "3": (0.3, 0.1)}  # 1.0, 0.1 and 0.3 s of CPU time
    assert core_use.delay_s(begin, end, cores=1) == pytest.approx(0.25)
    assert core_use.delay_s(begin, end, cores=2) == pytest.approx(0.25 + 0.1)
    assert core_use.delay_s({}, {}, cores=1) is None


def test_threads_that_end_and_kernels_that_do_not_count_are_left_out(tmp_path):
    for name, text in (("10", "2500000000 500000000 7\n"), ("11", "0 0\n"), ("12", "nothing\n")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "schedstat").write_text(text)
    (tmp_path / "13").mkdir()
    assert core_use.thread_times(tmp_path) == {"10": (2.5, 0.5), "11": (0.0, 0.0)}
    assert core_use.thread_times(tmp_path / "nowhere") == {}


def test_clocks_are_the_mean_of_the_cores(tmp_path):
    for core, clock in ((0, "2000000"), (1, "3000000")):
        (tmp_path / f"cpu{core}/cpufreq").mkdir(parents=True)
        (tmp_path / f"cpu{core}/cpufreq/scaling_cur_freq").write_text(f"{clock}\n")
    assert core_use.frequency_mhz([0, 1], clocks=tmp_path) == 2500.0
    assert core_use.frequency_mhz([0, 2], clocks=tmp_path) is None


def test_steal_at_the_start_is_a_share_of_the_time_of_all_cores():
    assert core_use.steal_fraction((10.0, 1.0), (14.0, 1.5), cores=2) == pytest.approx(0.5 / 8)
    assert core_use.steal_fraction((10.0, 1.0), (10.0, 1.0), cores=2) is None
    assert core_use.steal_fraction(None, (14.0, 1.5), cores=2) is None


@pytest.mark.skipif(not core_use.STAT.exists(), reason="no /proc/stat")
def test_this_machine_tells_what_was_stolen():
    begin = core_use.steal([0])
    while (end := core_use.steal([0]))[0] == begin[0]:
        pass
    assert 0 <= core_use.steal_fraction(begin, end, 1) <= 1
