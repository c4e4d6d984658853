"""Processes that keep cores awake, for real."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from train.launch import cgroups

pytestmark = pytest.mark.slow


def until(holds, within_s=60):
    end = time.monotonic() + within_s
    while not holds() and time.monotonic() < end:
        time.sleep(0.02)
    return holds()


def test_they_use_their_core_behind_all_others_until_they_are_stopped():
    core = min(os.sched_getaffinity(0))
    [one] = started = cgroups.start_spinning([core])
    try:
        assert until(lambda: os.sched_getscheduler(one.pid) == os.SCHED_IDLE)
        assert os.sched_getaffinity(one.pid) == {core}
        assert until(lambda: psutil.Process(one.pid).cpu_times().user > 0.1)
    finally:
        cgroups.stop_spinning(started)
    assert one.returncode == -signal.SIGKILL


def test_they_end_with_the_process_that_started_them():
    starts = "import sys, time; from train.launch import cgroups\n"
    starts += "print(cgroups.start_spinning([int(sys.argv[1])])[0].pid, flush=True); time.sleep(600)"
    core = str(min(os.sched_getaffinity(0)))
    parent = subprocess.Popen([sys.executable, "-c", starts, core], stdout=subprocess.PIPE, text=True)
    spins = int(parent.stdout.readline())
    assert until(lambda: os.sched_getscheduler(spins) == os.SCHED_IDLE)
    parent.kill()
    parent.wait()
    assert until(lambda: not psutil.pid_exists(spins))


def test_a_group_behind_all_others_leaves_them_their_core():
    means = cgroups.find()
    if isinstance(means, str) or not means.keeps_awake:
        pytest.skip("no groups of root's own here")
    core = min(os.sched_getaffinity(0))
    loop = f"import os\nos.sched_setaffinity(0, {{{core}}})\nprint(flush=True)\nwhile True: pass"
    node = subprocess.Popen([sys.executable, "-S", "-c", loop], stdout=subprocess.PIPE)
    node.stdout.readline()
    [one] = started = cgroups.start_spinning([core])
    groups = cgroups.Groups(means, "test-awake", 1)

    def used_s(pid):
        return psutil.Process(pid).cpu_times().user

    try:
        groups.limit([[node.pid]], node.pid, 1.0)
        groups.put_behind([one.pid])
        assert until(lambda: os.sched_getscheduler(one.pid) == os.SCHED_IDLE)
        before = used_s(one.pid), used_s(node.pid)
        assert until(lambda: used_s(node.pid) > before[1] + 1)
        assert used_s(one.pid) - before[0] < 0.1 * (used_s(node.pid) - before[1])
    finally:
        node.kill()
        node.wait()
        cgroups.stop_spinning(started)
        groups.remove()
    assert not list(means.parent.glob(f"kit{os.getpid()}-*-test-awake*"))
