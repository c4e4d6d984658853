"""Faults of hosts, ranks and links: the reason that a failed job records, and that no process is left.

Without the kit's timeouts these jobs would run longer than the tests wait.
"""

import pytest

from analysis import audit
from analysis.study import Study
from tests.helpers import kit, simcluster
from tests.helpers.kit import LAUNCH, QUICK, records, wait_for
from tests.helpers.patched_ranks import ROUNDS_END, SLEEPING, Hold, patch_ranks
from train.launch import cgroups

pytestmark = pytest.mark.end_to_end

# Two runs: the first does not end by itself.
LONG = ("nodes=2,1", "experiment=weak_scaling", "launcher=ssh", "launcher.hosts=[n1,n2]")


def test_a_host_whose_link_goes_silent_is_dropped_and_a_rank_ends_with_a_launcher_that_cannot_end_it(cluster, results):
    """A host that dies looks the same from the others: a dead one sends nothing."""
    command = (*LAUNCH, *LONG, *QUICK, "measure.timed_steps=1000000", f"results={results}")
    variables = patch_ranks(results / "patch", SLEEPING) | kit.OTHER_JOB  # as in a shell inside another job
    child = cluster.popen("n0", *command, variables=variables)
    wait_for(lambda: kit.in_phase(results, "timed", "tiny-nodes2/*/r0/rank-1.*.jsonl"))
    cluster.link("n2", up=False)
    try:
        wait_for(lambda: records(results))
    finally:
        cluster.link("n2", up=True)
    [record] = records(results)
    assert (record.point, record.status, record.failure.host) == ("tiny-nodes2", "failed", "n2")
    wait_for(lambda: not cluster.processes(simcluster.RANKS, "n2"))

    wait_for(lambda: kit.in_phase(results, "timed", "tiny-nodes1/*/r0/rank-0.*.jsonl"))
    assert len(cluster.processes(simcluster.RANKS, "n1")) == 1  # that of the next point
    cluster.on("n0", "pkill", "-KILL", "-f", str(results))  # the launcher with Horovod's launcher, and every ssh
    child.wait()
    wait_for(lambda: not cluster.processes(simcluster.RANKS, "n1"))
    assert [record.point for record in records(results)] == ["tiny-nodes2"]


def test_a_connection_that_is_cut_between_rounds_keeps_them_and_names_its_host(cluster, results):
    hold = Hold(results / "patch", ROUNDS_END, after=2, ranks=[1], changes=SLEEPING)  # all have recorded three rounds
    curve = ("experiment=weak_scaling", "nodes=2", "measure.repeats=1", "launcher=ssh", "launcher.hosts=[n1,n2]")
    launch = (*LAUNCH, "--only=tiny-rounds", *curve, "model=tiny", "batch_per_rank=4", "tracking=none")
    child = cluster.popen("n0", *launch, f"results={results}", variables=hold.variables)
    wait_for(hold.holds)
    cluster.on("n2", "pkill", "-KILL", "-f", "sshd: root@notty")
    output, _ = child.communicate(timeout=kit.TIMEOUT_S)
    [record] = records(results)
    assert (record.failure.rank, record.failure.host) == (1, "n2"), output
    assert "the link to it is gone: ssh ended with exit status 255; it printed last: " in record.failure.reason
    assert [(rank.rank, rank.node, rank.host) for rank in record.ranks] == [(0, 0, "n1"), (1, 1, "n2")]
    first, second = ({(window.round, window.arm) for window in rank.windows} for rank in record.ranks)
    on_both = {(number, 1) for number in (0, 1, 2)} | {(0, 2)}  # the control is in every fourth round
    assert first == on_both | {(number, 0) for number in (0, 1, 2)}
    assert second == on_both
    assert not record.cores_shared
    wait_for(lambda: not cluster.processes(simcluster.RANKS, "n1", "n2"))


@pytest.mark.on_change_of("analysis/audit/", "train/loop/", "train/launch/launchers/")
def test_the_audit_names_a_rank_on_a_slower_host(cluster, results, means):
    # Both ranks wait at the end of the warm-up.
    hold = Hold(results / "patch", "train.loop.devices.synchronize_devices", after=2, ranks=[0, 1])
    overrides = (*LONG, *QUICK, "batch_per_rank=128", "measure.timed_steps=30")
    launch = (*LAUNCH, "--only=tiny-nodes2", *overrides, f"results={results}")
    child, slow = cluster.popen("n0", *launch, variables=hold.variables), cgroups.Groups(means, "slow", 1)
    try:
        wait_for(hold.holds)
        # So little that a step takes longer than on a core that the other rank shares with many processes.
        slow.limit([[kit.ranks(results)[1].pid]], cpus=0.03)
        hold.off()
        kit.finish(child)
    finally:
        slow.remove()
    [straggler] = [finding for finding in audit.record_findings(Study(results)) if finding.rule == "straggler"]
    assert straggler.stated.startswith("rank 1 on n2: ")
    [run] = records(results)
    # The exchange ends each step on both ranks: the sums differ by one step at most.
    steps_s = [sum(rank.step_times_s) for rank in run.ranks]
    assert abs(steps_s[0] - steps_s[1]) <= max(max(rank.step_times_s) for rank in run.ranks)
