"""A node that is set down and a job that is requeued: Slurm starts the job again, which measures again."""

import time

import pytest

from tests.helpers.kit import records, wait_for
from tests.helpers.slurm_job import hold_in_timed_steps, interrupted, left, queued, submit

pytestmark = pytest.mark.end_to_end


def test_a_node_set_down_and_a_requeue_start_the_job_again(cluster, results):
    hold = hold_in_timed_steps(results)
    submit(cluster, results, hold)
    wait_for(hold.holds)
    [job] = queued(cluster)
    hold.on()
    begin = time.monotonic()
    cluster.on("n0", "scontrol", "update", "nodename=n2", "state=down", "reason=test")
    wait_for(hold.holds)
    print(f"the run was timed again {time.monotonic() - begin:.1f} s after its node was set down")
    hold.on()
    cluster.on("n0", "scontrol", "requeue", job)
    wait_for(hold.holds)
    hold.off()
    wait_for(lambda: not queued(cluster))
    found = {(record.repeat, record.generation): record for record in records(results)}
    assert [key for key, record in found.items() if record.status == "complete"] == [(0, 3)]
    assert all(interrupted(record) for record in found.values() if record.status == "failed")
    assert left(cluster) == ""
