"""A Slurm job that ends early: its measurements are kept, and a new job measures only the rest."""

import re
from pathlib import Path

import pytest

from tests.helpers.kit import LAUNCH, OTHER_JOB, QUICK, analyse, records, wait_for
from tests.helpers.patched_ranks import SLEEPING, Hold
from train.config import quoted

pytestmark = pytest.mark.end_to_end

OVERRIDES = ("experiment=weak_scaling", "nodes=2", "launcher=slurm", "system=slurm", *QUICK)


def submit(cluster, results: Path, hold: Hold) -> str:
    """Submit 30 launches, or the rest of them, in which rank 1 is held; return the output of the launcher."""
    steps = ("measure.timed_steps=100", "measure.repeats=30", f"results={quoted(str(results))}")
    sbatch = cluster.on("n0", *LAUNCH, "--only=tiny-nodes2", *OVERRIDES, *steps, variables=hold.variables | OTHER_JOB)
    assert sbatch.returncode == 0, sbatch.stdout
    return sbatch.stdout


def minutes(cluster, job: str) -> int:
    """Return for how many whole minutes a job has run. Slurm prints [[hours:]minutes:]seconds."""
    *hours, minute, _ = cluster.on("n0", "squeue", "-h", "-j", job, "-o", "%M").stdout.strip().split(":")
    return 60 * int(*hours or [0]) + int(minute)


def interrupted(record) -> bool:
    """Return whether a record has the reason that Slurm ended the job, with the hosts of its ranks."""
    reason = r"interrupted by SIGTERM( \(slurm: .* CANCELLED AT .*\))?; ranks 0-1 on n\[.*\] in phase timed"
    return record.status == "failed" and re.fullmatch(reason, record.failure.reason) is not None


def summary(results: Path, status: int = 0) -> str:
    """Return the summary of these records. status 1: none is complete."""
    return analyse("summary", "weak_scaling", "--results", str(results), status=status)


def generations(results: Path) -> dict:
    """Return the records by repeat and generation."""
    return {(record.repeat, record.generation): record for record in records(results)}


def test_a_crash_a_time_limit_and_scancel_keep_what_was_measured(cluster, results):
    # Rank 1 stops in the timed steps, where rank 0 waits for it.
    hold = Hold(results / "patch", "train.loop.devices.synchronize_devices", after=50, ranks=[1], changes=SLEEPING)
    results = results / 'it\'s [é] (1): 100% "$HOME", `id`;#'
    submit(cluster, results, hold)
    wait_for(hold.holds)
    [job] = cluster.queue()
    hold.on()
    cluster.crash("n2")
    cluster.on("n0", "scontrol", "update", "nodename=n2", "state=down", "reason=test")  # as Slurm does after 300 s
    wait_for(hold.holds)
    [first] = records(results)
    assert first.failure.reason == "node n2 failed: the batch system gave it up and ended the job by SIGTERM"
    assert (first.failure.rank, first.failure.host, first.failure.phase) == (1, "n2", "timed")
    assert f"{first.failure.reason} (rank 1, host n2, phase timed)" in summary(results, status=2)
    cluster.boot("n2")

    hold.off()
    wait_for(lambda: (0, 2) in generations(results))
    hold.on()
    wait_for(hold.holds)
    # Slurm counts in minutes, and notifies the launcher a minute before the end, or earlier.
    limit = minutes(cluster, job) + 2
    assert cluster.on("n0", "scontrol", "update", f"jobid={job}", f"timelimit={limit}").returncode == 0
    wait_for(lambda: not cluster.queue())
    before = generations(results)
    complete = [record for record in before.values() if record.status == "complete"]
    assert {record.repeat for record in complete} == set(range(len(complete)))
    assert len(before) == len(complete) + 2
    assert interrupted(before[len(complete), 1])
    assert cluster.processes("python.* -m train", *cluster.hosts) == []

    hold.on()
    output = submit(cluster, results, hold)
    assert f"{len(complete)} of 30 runs are measured already" in output
    wait_for(hold.holds)
    cluster.on("n0", "scancel", *cluster.queue())
    wait_for(lambda: not cluster.queue())
    assert cluster.processes("python.* -m train", *cluster.hosts) == []
    after = generations(results)
    assert all(after.pop(key).sha256 == record.sha256 for key, record in before.items())
    assert after.keys() == {(len(complete), 2)}
    assert all(interrupted(record) for record in after.values())
    assert "ranks 0-1 on n[" in summary(results)
