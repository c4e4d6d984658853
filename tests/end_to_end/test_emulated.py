"""Emulated nodes with real control groups, and with network namespaces that have slow links."""

import os
import signal
from pathlib import Path
from statistics import median

import pytest

from tests.helpers.kit import command_lines, finish, launch_command, records, start, succeed, wait_for
from tests.helpers.patched_ranks import ROUNDS_END, Hold, patch_ranks, rounds
from train.launch import cgroups, networks

pytestmark = pytest.mark.end_to_end

SWEEP = ("experiment=network_sweep", "nodes=2", "system.cpu_quota_per_node=0.3", "system.link_mbit_per_s=1,null")
ENDLESS = ("measure.design=rounds", "measure.budget_s=3600", "measure.repeats=1", "measure.precision_fraction=0.1")


def leftovers(pid: int, means: cgroups.QuotaMethod) -> list[Path]:
    """Return the existing control groups and networks of the launcher with this process ID."""
    groups = list(means.parent.glob(f"kit{pid}-*")) if means.parent else []
    return [*groups, *Path("/run/netns").glob(f"kit{pid}-*"), *Path("/etc/netns").glob(f"kit{pid}-*")]


@pytest.mark.on_change_of("train/loop/", "train/launch/cgroups.py")
def test_one_node_alone_has_the_batch_of_the_largest_point_where_nobody_is_joined(
    tmp_path: Path, means: cgroups.QuotaMethod
):
    """Strong scaling: the control on one node shares a compiled step with the point on two, and runs before it."""
    strong = ("experiment=strong_scaling", "nodes=2", "batch_per_rank=null", "global_batch=8", "measure.design=rounds")
    short = ("measure.precision_fraction=0.9", "measure.budget_s=1")  # short windows, and no second launch
    emulated = ("launcher=emulated", "system.cpu_quota_per_node=0.4")
    command = launch_command(tmp_path / "results", *strong, *emulated, *short)
    succeed(*command, variables=patch_ranks(tmp_path / "patch", rounds(1)))
    [curve] = records(tmp_path / "results")
    batches = [(arm["nodes"], arm["batch_per_rank"], arm["role"]) for arm in curve.config["rounds"]]
    assert batches == [(1, 8, "base"), (1, 4, "control"), (2, 4, "point"), (2, 4, "control")]


@pytest.mark.skipif(networks.missing() is not None, reason=str(networks.missing()))
def test_nodes_have_their_share_links_are_slow_and_ctrl_c_leaves_nothing(tmp_path: Path, means: cgroups.QuotaMethod):
    hold = Hold(tmp_path / "patch", ROUNDS_END, after=0, ranks=[0, 1])  # all have recorded a round
    launcher = start(*launch_command(tmp_path, *SWEEP, *ENDLESS), variables=hold.variables)
    wait_for(hold.holds)
    keep_awake = [group for group in leftovers(launcher.pid, means) if group.name.endswith("-behind")]
    awake = [int(pid) for group in keep_awake for pid in (group / "cgroup.procs").read_text().split()]
    # Each process sets its idle policy itself when it runs.
    expected = {os.SCHED_IDLE} if means.keeps_awake else set()
    wait_for(lambda: {os.sched_getscheduler(pid) for pid in awake} == expected)
    assert len(awake) == (len(os.sched_getaffinity(0)) if means.keeps_awake else 0)
    assert leftovers(launcher.pid, means)
    os.kill(launcher.pid, signal.SIGINT)
    output = finish(launcher, status=130)
    assert "each is limited to 30 % of a core" in output
    assert leftovers(launcher.pid, means) == []
    assert command_lines(tmp_path) == []

    [curve] = records(tmp_path)
    assert curve.failure.reason == "interrupted by SIGINT"
    arms = [(arm["arm"], arm["link_mbit_per_s"]) for arm in curve.config["rounds"]]
    steps: dict = {arm: [] for arm in arms}
    for window in curve.ranks[0].windows:
        steps[arms[window.arm]] += window.step_times_s[-4:]
    # 9,232 trainable weights in fp32 are 36,928 bytes. Each of two nodes sends all of them: 0.295 s at 1 Mbit/s. The
    # bucket of the filter is full after the other windows, so that it does not limit the first three steps or so.
    limited_s = median(steps.pop(("with-allreduce", 1.0)))
    assert limited_s > 0.28
    assert all(min(times_s) < 0.28 for times_s in steps.values())  # one of many steps, however busy the machine is
    for rank in curve.ranks:
        counters = [window.cores for window in rank.windows if arms[window.arm][0] != "with-allreduce"]
        own_s, wall_s = sum(core.own_s for core in counters), sum(core.wall_s for core in counters)
        assert own_s < 0.36 * wall_s  # over a hundred periods
