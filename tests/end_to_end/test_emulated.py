"""Emulated nodes for real: control groups, and network namespaces with slow links."""

import os
import signal
import sys
from pathlib import Path
from statistics import median

import pytest

from tests.helpers.kit import END_S, anything, in_phase, launch_command, records, run, start, wait_for
from tests.helpers.patched import patched, rounds
from train.launch.emulate import cgroups, networks

pytestmark = pytest.mark.end_to_end

HELD = ("launcher=emulated", "system.cpus_per_node=0.3")


@pytest.fixture
def means() -> cgroups.Means:
    """How quotas are had here; skips where they cannot."""
    found = cgroups.find()
    if isinstance(found, str):
        pytest.skip(found)
    return found


def left_by(pid: int, means: cgroups.Means) -> list[Path]:
    """The control groups and networks that the launcher of that process made, and that are still there."""
    groups = list(means.parent.glob(f"kit{pid}-*")) if means.parent else []
    return [*groups, *Path("/run/netns").glob(f"kit{pid}-*"), *Path("/etc/netns").glob(f"kit{pid}-*")]


def test_emulated_weak_scaling_is_held_to_its_quota_and_has_a_control(tmp_path: Path, means: cgroups.Means):
    points = ("tiny-nodes2", "tiny-nodes2-without-allreduce")
    asked = ("experiment=weak_scaling", f"--only={','.join(points)}", "nodes=2", "measure.timed_steps=300", *HELD)
    status, output = run(*launch_command(tmp_path, *asked))
    assert status == 0, output
    assert "each is limited to 30 % of a core" in output
    made = records(tmp_path)
    assert [(r.point, r.status, r.cores_shared) for r in made] == [(point, "complete", False) for point in points]
    for r in made:
        assert [(q.node, q.cpus, q.by) for q in r.node_quotas] == [(n, 0.3, means.words) for n in range(len(r.ranks))]
        for rank, node in zip(r.ranks, r.node_quotas, strict=True):
            used = rank.timed_cores.own_s / rank.timed_cores.wall_s  # over seconds, which are hundreds of periods
            assert used < 0.36
            # The control waits for nothing but its quota, unless what else runs here leaves it less than that.
            if r.point.endswith("without-allreduce") and used > 0.27:
                assert node.throttled_periods > 0.2 * rank.timed_cores.wall_s / node.period_s
    assert anything(tmp_path) == []
    status, output = run(sys.executable, "-m", "analysis", "summary", "weak_scaling", "--results", str(tmp_path))
    assert status == 0, output
    assert "emulated: 30 % of a core a node" in output
    assert "images: tiny 32 x 32" in output


@pytest.mark.skipif(networks.missing() is not None, reason=str(networks.missing()))
def test_a_slow_link_costs_what_it_must_and_ctrl_c_leaves_nothing(tmp_path: Path, means: cgroups.Means):
    slow = ("experiment=network_sweep", "nodes=2", *HELD)
    links = ("system.link_mbit_per_s=1,null", "measure.design=rounds", "measure.budget_s=1", "measure.repeats=1")
    status, output = run(*launch_command(tmp_path, *links, *slow), variables=patched(tmp_path / "patch", rounds(2)))
    assert status == 0, output
    [curve] = records(tmp_path)
    arms = [(arm["arm"], arm["link_mbit_per_s"]) for arm in curve.config["rounds"]]
    steps: dict = {arm: [] for arm in arms}
    for window in curve.ranks[0].windows:
        steps[arms[window.arm]] += window.step_times_s[-4:]
    # 9,232 trainable weights in fp32 are 36,928 bytes; with two nodes all of them leave each: 0.295 s at 1 Mbit/s. The
    # filter's bucket, full after the other windows, lets the first three steps or so pass.
    held = median(steps.pop(("with-allreduce", 1.0)))
    assert held > 0.28
    assert all(min(of) < 0.28 for of in steps.values())  # one step of many, however busy the machine is

    slow = (*slow, "system.link_mbit_per_s=1")
    launcher = start(*launch_command(tmp_path / "endless", "measure.timed_steps=1000000", *slow))
    wait_for(lambda: in_phase(tmp_path / "endless", "timed"))
    behind = [group for group in left_by(launcher.pid, means) if group.name.endswith("-behind")]
    awake = [int(pid) for group in behind for pid in (group / "cgroup.procs").read_text().split()]
    # Each asks for the idle policy itself, once it runs.
    expected = {os.SCHED_IDLE} if means.keeps_awake else set()
    wait_for(lambda: {os.sched_getscheduler(pid) for pid in awake} == expected)
    assert len(awake) == (len(os.sched_getaffinity(0)) if means.keeps_awake else 0)
    assert left_by(launcher.pid, means)
    os.kill(launcher.pid, signal.SIGINT)
    launcher.communicate(timeout=END_S)
    assert launcher.returncode == 130
    assert left_by(launcher.pid, means) == []
    assert anything(tmp_path) == []
    assert [r.failure.reason for r in records(tmp_path / "endless")] == ["interrupted by SIGINT"]
