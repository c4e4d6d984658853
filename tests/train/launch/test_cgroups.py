import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

from tests.helpers.kit import wait_for
from train.launch import cgroups


@pytest.mark.parametrize(
    ("cores", "largest", "expected"),
    [
        (2, 8, 0.2),  # 0.8 x 2 / 8
        (2, 3, 0.4),  # two nodes on one of the cores
        (4, 2, 1.6),
        (8, 3, 1.6),  # two whole cores each
        (1, 64, 0.0125),
    ],
)
def test_the_share_of_a_node(cores, largest, expected):
    assert cgroups.per_node(cores, largest, 0.8) == expected


def test_a_period_leaves_time_to_work_and_no_two_nodes_stay_in_step():
    expected = {0.2: 20_000, 1.6: 20_000, 0.1: 40_000, 0.001: 1_000_000}  # 4 ms in each, and no longer than a second
    assert {cpus: cgroups.period_us(cpus, node=0) for cpus in expected} == expected
    assert [cgroups.period_us(0.2, node) for node in range(4)] == [20_000, 20_400, 20_800, 21_200]
    for node in range(64):  # all with the same share
        period = cgroups.period_us(0.2, node)
        assert cgroups.settings(2, 0.2, node) == {"cpu.max": f"{period // 5} {period}"}


def test_the_contents_of_the_files_of_a_group():
    assert cgroups.settings(1, 0.2) == {"cpu.cfs_period_us": "20000", "cpu.cfs_quota_us": "4000"}
    assert cgroups.settings(2, 0.2) == {"cpu.max": "4000 20000"}
    assert cgroups.settings(1, None) == {"cpu.cfs_quota_us": "-1"}
    assert cgroups.settings(2, None) == {"cpu.max": "max"}


def test_a_systemd_that_does_not_answer_is_a_reason(monkeypatch):
    def hangs(means):
        raise subprocess.TimeoutExpired(["systemd-run"], 60)

    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(cgroups.shutil, "which", lambda command: f"/bin/{command}")
    monkeypatch.setattr(cgroups, "try_out", hangs)
    reason = "systemd-run --user: Command '['systemd-run']' timed out after 60 seconds"
    assert cgroups.quota_method.__wrapped__() == reason


CORE = min(os.sched_getaffinity(0))
LOOP = f"import os\nos.sched_setaffinity(0, {{{CORE}}})\nprint(flush=True)\nwhile True: pass"


@pytest.fixture
def means():
    """The way to set quotas on this machine."""
    result = cgroups.quota_method()
    if isinstance(result, str):
        pytest.skip(result)
    return result


@pytest.fixture
def root_means(means):
    if means.parent is None:
        pytest.skip("this machine has no control groups of root")
    return means


@pytest.fixture
def busy(means):
    """A process that uses a core until the test has ended."""
    process = subprocess.Popen([*means.prefix, sys.executable, "-S", "-c", LOOP], stdout=subprocess.PIPE)
    process.stdout.readline()
    yield process
    cgroups.stop_spinning([process])


@pytest.mark.slow
def test_groups_of_a_killed_launcher_are_removed(root_means):
    launcher = subprocess.Popen(["sleep", "600"])
    namespace = os.stat("/proc/self/ns/pid").st_ino
    stale, in_use = (root_means.parent / f"kit{pid}-{namespace}-r0" for pid in (launcher.pid, os.getpid()))
    elsewhere = root_means.parent / f"kit{launcher.pid}-1-r0"  # of a host in a namespace, or of a container
    try:
        for group in (stale, stale / "node0", in_use, elsewhere):
            group.mkdir()
        launcher.kill()
        launcher.wait()
        cgroups.quota_method.__wrapped__()
        assert [group.exists() for group in (stale, in_use, elsewhere)] == [False, True, True]
    finally:
        in_use.rmdir()
        elsewhere.rmdir()


def used_s(pid: int) -> float:
    times = psutil.Process(pid).cpu_times()
    return times.user + times.system


@pytest.mark.slow
def test_a_group_holds_a_process_to_its_quota(means, busy):
    groups = cgroups.Groups(means, "test", 1)
    try:
        groups.limit([[busy.pid]], 0.05)  # a busy machine would leave it more
        begin, before = time.monotonic(), used_s(busy.pid)
        time.sleep(1)
        used, passed = used_s(busy.pid) - before, time.monotonic() - begin
        (quota,) = groups.lift()
    finally:
        cgroups.stop_spinning([busy])
        groups.remove()
    assert used < 0.05 * (passed + 2 * quota.period_s) + 0.02  # CPU time is counted in ticks of 0.01 s
    assert quota.cpus == 0.05
    assert quota.periods >= quota.throttled_periods > 0
    assert not list((means.parent or Path("/nowhere")).glob(f"kit{os.getpid()}-*-test"))


@pytest.mark.slow
def test_a_core_is_kept_awake_as_long_as_the_process_that_asked_for_it_lives():
    starts = "import sys, time; from train.launch import cgroups\n"
    starts += "print(cgroups.start_spinning([int(sys.argv[1])])[0].pid, flush=True); time.sleep(600)"
    parent = subprocess.Popen([sys.executable, "-c", starts, str(CORE)], stdout=subprocess.PIPE, text=True)
    spinner = int(parent.stdout.readline())
    wait_for(lambda: os.sched_getscheduler(spinner) == os.SCHED_IDLE)
    assert os.sched_getaffinity(spinner) == {CORE}
    wait_for(lambda: used_s(spinner) > 0.1)
    parent.kill()
    parent.wait()
    wait_for(lambda: not psutil.pid_exists(spinner))


@pytest.mark.slow
def test_a_group_behind_all_others_leaves_them_their_core(root_means, busy):
    [spinner] = spinners = cgroups.start_spinning([CORE])
    groups = cgroups.Groups(root_means, "test-awake", 1)
    try:
        # It hardly starts when it is behind the node.
        wait_for(lambda: os.sched_getscheduler(spinner.pid) == os.SCHED_IDLE)
        groups.limit([[busy.pid]], 1.0)
        groups.put_behind([spinner.pid])
        before = used_s(spinner.pid), used_s(busy.pid)
        wait_for(lambda: used_s(busy.pid) > before[1] + 1)
        assert used_s(spinner.pid) - before[0] < 0.1 * (used_s(busy.pid) - before[1])
    finally:
        cgroups.stop_spinning([busy, *spinners])
        groups.remove()
    assert spinner.returncode == -signal.SIGKILL
    assert not list(root_means.parent.glob(f"kit{os.getpid()}-*-test-awake*"))
