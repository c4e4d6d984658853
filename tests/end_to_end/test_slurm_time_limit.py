"""A time limit and scancel: what was measured is kept, and only the rest is measured again."""

import time

import pytest

from tests.helpers import simcluster
from tests.helpers.kit import records, wait_for
from tests.helpers.slurm_job import interrupted, left, queued, submit, timed

pytestmark = pytest.mark.end_to_end


def test_a_time_limit_and_scancel_keep_what_was_measured(cluster, results):
    # Slurm counts in minutes, and tells the launcher a minute before the end, or earlier.
    repeated = ("measure.repeats=30", "measure.timed_steps=200", "launcher.time_limit_s=180")
    begin = time.monotonic()
    submit(cluster, results, *repeated)
    if not simcluster.rate_missing():  # the second run then waits for its messages, and takes no cores from other tests
        wait_for(lambda: records(results))
        cluster.rate(0.2)
    wait_for(lambda: not queued(cluster), timeout=180)
    cluster.rate(None)
    print(f"the job ended {time.monotonic() - begin:.1f} s after it was submitted with a limit of 180 s")
    first = sorted(records(results), key=lambda record: record.repeat)  # by path, r10 comes before r2
    assert [record.repeat for record in first] == list(range(len(first)))
    complete = [record for record in first if record.status == "complete"]
    assert complete
    cut = first[len(complete) :]  # or none, where the signal came between two runs
    assert len(cut) <= 1
    assert all(interrupted(record) for record in cut)
    assert left(cluster) == ""

    said = submit(cluster, results, *repeated)
    assert f"{len(complete)} of 30 runs are measured already" in said
    next_repeat, generation = len(complete), 1 + len(cut)
    again = f"r{next_repeat}.2" if cut else f"r{next_repeat}"
    wait_for(lambda: timed(results, again))
    begin = time.monotonic()
    cluster.on("n0", "scancel", *queued(cluster))
    wait_for(lambda: not queued(cluster), timeout=30)
    print(f"the job was gone {time.monotonic() - begin:.1f} s after scancel")
    assert left(cluster) == ""
    kept = {(record.repeat, record.generation): record for record in records(results)}
    assert all(kept.pop((record.repeat, 1)).sha256 == record.sha256 for record in first)
    assert (next_repeat, generation) in kept
    assert kept.keys() <= {(next_repeat, generation), (next_repeat + 1, 1)}  # where it ended just before scancel
    assert all(interrupted(record) for record in kept.values() if record.status == "failed")
