"""A job of Slurm's that is ended before its time: how it is submitted, and what is left of it."""

import re
import sys
from pathlib import Path

from tests.helpers import kit
from tests.helpers.kit import OTHER_JOB, QUICK
from tests.helpers.patched import Hold
from train.config.quoting import quoted

LAUNCH = (sys.executable, "-m", "train.launch")


def hold_in_timed_steps(results: Path) -> Hold:
    """Rank 1 of a job stands still in its timed steps, where rank 0 waits for it, for as long as the hold is on."""
    return Hold(results / "patch", "train.loop.step.synchronize_devices", after=50, ranks=[1])


def submit(cluster, results: Path, hold: Hold, *overrides: str) -> str:
    """Submit, or submit the rest: what the launcher says. Jobs have 100 timed steps, and get the hold's variables."""
    asked = ["experiment=weak_scaling", "nodes=2", "launcher=slurm", "system=slurm", *QUICK, "measure.timed_steps=100"]
    variables = [f"{name}={value}" for name, value in (hold.variables | OTHER_JOB).items()]
    launch = ["env", *variables, *LAUNCH, "--only=tiny-nodes2"]
    sent = cluster.on("n0", *launch, *asked, *overrides, f"results={quoted(str(results))}")
    assert sent.returncode == 0, sent.stdout
    return sent.stdout


def queued(cluster) -> list[str]:
    return cluster.on("n0", "squeue", "-h", "-o", "%i").stdout.split()


def interrupted(record) -> bool:
    """Whether a record says that Slurm ended the job, and which ranks were where then."""
    output = r"interrupted by SIGTERM( \(Slurm: .* CANCELLED AT .*\))?; ranks 0-1 on n\[.*\] in phase timed"
    return record.status == "failed" and re.fullmatch(output, record.failure.reason) is not None


def summary(results: Path) -> str:
    """What the summary of these records says."""
    return kit.run(sys.executable, "-m", "analysis", "summary", "weak_scaling", "--results", str(results))[1]


def left(cluster) -> str:
    return "".join(cluster.on(host, "pgrep", "-af", "python.* -m train").stdout for host in cluster.hosts)
