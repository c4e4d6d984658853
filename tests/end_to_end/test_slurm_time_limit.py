"""A time limit and scancel: what was measured is kept, and only the rest is measured again."""

import time

import pytest

from tests.helpers.kit import records, wait_for
from tests.helpers.slurm_job import hold_in_timed_steps, interrupted, left, queued, submit, summary

pytestmark = pytest.mark.end_to_end


def minutes(cluster, job: str) -> int:
    """For how many whole minutes a job has run: [[hours:]minutes:]seconds."""
    *hours, minute, _ = cluster.on("n0", "squeue", "-h", "-j", job, "-o", "%M").stdout.strip().split(":")
    return 60 * int(*hours or [0]) + int(minute)


def test_a_time_limit_and_scancel_keep_what_was_measured(cluster, results):
    hold = hold_in_timed_steps(results)
    hold.off()
    submit(cluster, results, hold, "measure.repeats=30")
    wait_for(lambda: records(results))
    hold.on()
    wait_for(hold.holds)
    [job] = queued(cluster)
    begin = time.monotonic()
    # Slurm counts in minutes, and tells the launcher a minute before the end, or earlier.
    limit = minutes(cluster, job) + 2
    assert cluster.on("n0", "scontrol", "update", f"jobid={job}", f"timelimit={limit}").returncode == 0
    wait_for(lambda: not queued(cluster))
    print(f"the job ended {time.monotonic() - begin:.1f} s after its limit was set to {limit} min")
    first = sorted(records(results), key=lambda record: record.repeat)  # by path, r10 comes before r2
    assert [record.repeat for record in first] == list(range(len(first)))
    *complete, cut = first
    assert complete
    assert all(record.status == "complete" for record in complete)
    assert interrupted(cut)
    assert left(cluster) == ""

    hold.on()
    said = submit(cluster, results, hold, "measure.repeats=30")
    assert f"{len(complete)} of 30 runs are measured already" in said
    wait_for(hold.holds)
    begin = time.monotonic()
    cluster.on("n0", "scancel", *queued(cluster))
    wait_for(lambda: not queued(cluster))
    print(f"the job was gone {time.monotonic() - begin:.1f} s after scancel")
    assert left(cluster) == ""
    kept = {(record.repeat, record.generation): record for record in records(results)}
    assert all(kept.pop((record.repeat, 1)).sha256 == record.sha256 for record in first)
    assert kept.keys() == {(cut.repeat, 2)}
    assert all(interrupted(record) for record in kept.values())
    assert "ranks 0-1 on n[1-2] in phase timed" in summary(results)
