"""A node that crashes and a job that is requeued: Slurm starts the job again, which measures again."""

import time

import pytest

from tests.helpers.kit import records, wait_for
from tests.helpers.slurm_job import hold_in_timed_steps, left, queued, submit, summary

pytestmark = pytest.mark.end_to_end


def test_a_crashed_node_is_named_and_it_and_a_requeue_start_the_job_again(cluster, results):
    hold = hold_in_timed_steps(results)
    results = results / 'it\'s [é] (1): 100% "$HOME", `id`;#'
    submit(cluster, results, hold)
    wait_for(hold.holds)
    [job] = queued(cluster)
    hold.on()
    begin = time.monotonic()
    cluster.crash("n2")
    cluster.on("n0", "scontrol", "update", "nodename=n2", "state=down", "reason=test")  # as Slurm would in 300 s
    wait_for(hold.holds)
    print(f"the run was timed again {time.monotonic() - begin:.1f} s after its node crashed")
    [first] = records(results)
    assert first.failure.reason == "node n2 failed: Slurm gave it up and ended the job by SIGTERM"
    assert (first.failure.rank, first.failure.host, first.failure.phase) == (1, "n2", "timed")
    assert f"{first.failure.reason} (rank 1, host n2, phase timed)" in summary(results)
    cluster.boot("n2")
    hold.on()
    cluster.on("n0", "scontrol", "requeue", job)
    wait_for(hold.holds)
    hold.off()
    wait_for(lambda: not queued(cluster))
    found = {(record.repeat, record.generation): record for record in records(results)}
    assert [key for key, record in found.items() if record.status == "complete"] == [(0, 3)]
    assert all("SIGTERM" in record.failure.reason for record in found.values() if record.status == "failed")
    assert left(cluster) == ""
