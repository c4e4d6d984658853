"""What ends a job of Slurm's before its time: what was measured is kept, and only the rest is measured again."""

import sys
import time
from pathlib import Path

import pytest

from tests.helpers.kit import QUICK, in_phase, records, wait_for

pytestmark = pytest.mark.end_to_end

LAUNCH = (sys.executable, "-m", "train.launch")


def submit(cluster, results: Path, *overrides: str) -> str:
    """Submit, or submit the rest: what the launcher says."""
    asked = ["experiment=weak_scaling", "nodes=2", "launcher=slurm", "system=slurm", *QUICK, *overrides]
    sent = cluster.on("n0", *LAUNCH, "--only=tiny-nodes2", *asked, f"results={results}")
    assert sent.returncode == 0, sent.stdout
    return sent.stdout


def queued(cluster) -> list[str]:
    return cluster.on("n0", "squeue", "-h", "-o", "%i").stdout.split()


def timed(results: Path, run: str) -> bool:
    """Whether a run, as r0 or r0.2, is in its timed steps."""
    return in_phase(results, "timed", f"{run}/rank-0.*.jsonl")


def interrupted(record) -> bool:
    return record.status == "failed" and "SIGTERM" in record.failure.reason


def left(cluster) -> str:
    return "".join(cluster.on(host, "pgrep", "-af", "python.* -m train").stdout for host in cluster.hosts)


def test_a_time_limit_and_scancel_keep_what_was_measured(cluster, results):
    # Slurm counts in minutes, and tells the launcher a minute before the end, or earlier.
    repeated = ("measure.repeats=30", "launcher.time_limit_s=120")
    begin = time.monotonic()
    submit(cluster, results, *repeated)
    wait_for(lambda: not queued(cluster), timeout=120)
    print(f"the job ended {time.monotonic() - begin:.1f} s after it was submitted with a limit of 120 s")
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
    wait_for(lambda: timed(results, again), timeout=60)
    wait_for(lambda: list(results.rglob(f"r{next_repeat + 1}/rank-0.log")), timeout=60)
    begin = time.monotonic()
    cluster.on("n0", "scancel", *queued(cluster))
    wait_for(lambda: not queued(cluster), timeout=30)
    print(f"the job was gone {time.monotonic() - begin:.1f} s after scancel")
    assert left(cluster) == ""
    kept = {(record.repeat, record.generation): record for record in records(results)}
    assert all(kept.pop((record.repeat, 1)).sha256 == record.sha256 for record in first)
    assert kept.pop((next_repeat, generation)).status == "complete"
    assert all(interrupted(record) for record in kept.values())
    assert kept.keys() <= {(next_repeat + 1, 1)}


def test_a_node_set_down_and_a_requeue_start_the_job_again_with_the_rest(cluster, results):
    # Steps of some ms whatever the machine, so that what follows comes within the timed window.
    submit(cluster, results, "measure.repeats=2", "measure.timed_steps=300", "batch_per_rank=256")
    wait_for(lambda: timed(results, "r1"), timeout=150)
    [job] = queued(cluster)
    begin = time.monotonic()
    cluster.on("n0", "scontrol", "update", "nodename=n2", "state=down", "reason=test")
    wait_for(lambda: timed(results, "r1.2"), timeout=150)
    print(f"the run was timed again {time.monotonic() - begin:.1f} s after its node was set down")
    cluster.on("n0", "scontrol", "requeue", job)
    wait_for(lambda: not queued(cluster), timeout=150)
    found = {(record.repeat, record.generation): record for record in records(results)}
    assert [key for key, record in found.items() if record.status == "complete"] == [(0, 1), (1, 3)]
    assert all(interrupted(record) for record in found.values() if record.status == "failed")
    assert left(cluster) == ""
