"""A job of Slurm's that is ended before its time: how it is submitted, and what is left of it."""

import sys
from pathlib import Path

from tests.helpers.kit import QUICK, in_phase

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
