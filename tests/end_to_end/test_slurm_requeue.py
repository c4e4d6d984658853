"""A node that is set down and a job that is requeued: Slurm starts the job again, which measures again."""

import time

import pytest

from tests.helpers.kit import records, wait_for
from tests.helpers.slurm_job import interrupted, left, queued, submit, timed

pytestmark = pytest.mark.end_to_end


def test_a_node_set_down_and_a_requeue_start_the_job_again(cluster, results):
    # Steps of some ms whatever the machine, so that what follows comes within the timed window.
    submit(cluster, results, "measure.timed_steps=300", "batch_per_rank=128")
    wait_for(lambda: timed(results, "r0"))
    [job] = queued(cluster)
    begin = time.monotonic()
    cluster.on("n0", "scontrol", "update", "nodename=n2", "state=down", "reason=test")
    wait_for(lambda: timed(results, "r0.2"))
    print(f"the run was timed again {time.monotonic() - begin:.1f} s after its node was set down")
    cluster.on("n0", "scontrol", "requeue", job)
    wait_for(lambda: not queued(cluster))
    found = {(record.repeat, record.generation): record for record in records(results)}
    assert [key for key, record in found.items() if record.status == "complete"] == [(0, 3)]
    assert all(interrupted(record) for record in found.values() if record.status == "failed")
    assert left(cluster) == ""
