"""The effect of a busy loop on the core of the last rank, in half of the rounds, on a speedup and its interval.

python -m benchmarks.disturbed experiment=weak_scaling model=resnet50 nodes=2

The loop runs on the last core in four rounds, and not in the next four. The rounds of the launch without it give the
truth: the interval over all rounds must hold it, and be the wider one. docs/statistics.md has the result.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from pathlib import Path

from benchmarks import launches
from benchmarks.common import in_words, options
from train.record import affinity, protocol, record, rounds
from train.record.parts import read_part

_ROUNDS_IN_TURN = 4  # with the loop, then without
_EVERY_S = 0.5


def main() -> None:
    parser = options("disturbed", __doc__, budget_s=(300.0, "of the curve"))
    parser.add_argument("overrides", nargs="+", help="as experiment=weak_scaling model=resnet50 nodes=2")
    arguments = parser.parse_intermixed_args()
    with tempfile.TemporaryDirectory() as folder:
        results = Path(folder)
        measure = {"design": "rounds", "budget_s": arguments.budget_s, "repeats": 1}
        overrides = launches.overrides(results, arguments.overrides, **measure)
        command = launches.command(overrides, only=launches.curve_of(overrides))
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as job:
            disturbed = disturb(job, results)
        if job.returncode:
            sys.exit(f"the launch failed with status {job.returncode}")
        for line in compare(results, disturbed):
            print(line)


def disturb(job: subprocess.Popen, results: Path) -> set[int]:
    """Run the busy loop during half of the rounds of a job, until the job ends. Returns the numbers of these rounds."""
    disturbed: set[int] = set()
    loop: subprocess.Popen | None = None
    try:
        while job.poll() is None:
            number = finished(results)
            is_due = number is not None and number // _ROUNDS_IN_TURN % 2 == 1
            if loop is None and is_due:
                loop = busy_loop(max(affinity.usable_cores()))
            elif loop is not None and not is_due:
                loop = end(loop)
            if loop is not None and number is not None:
                disturbed.add(number)
            time.sleep(_EVERY_S)
    finally:
        end(loop)
    return disturbed


def finished(results: Path) -> int | None:
    """Return the rounds that rank 0 has finished, which is the number of the current one; None before the first."""
    for folder in results.glob("*/*/*/r*"):
        for path in protocol.part_paths(folder, 0):
            if windows := read_part(path).windows:
                return windows[-1].round + 1
    return None


def busy_loop(core: int) -> subprocess.Popen:
    code = f"import os\nos.sched_setaffinity(0, [{core}])\nwhile True: pass"
    return subprocess.Popen([sys.executable, "-c", code])


def end(loop: subprocess.Popen | None) -> None:
    if loop is not None:
        loop.kill()
        loop.wait()


def compare(results: Path, disturbed: set[int]) -> list[str]:
    """Return a line an arm: its speedup over all rounds, and over those without the loop."""
    run = record.load(next(iter(record.find(results))))
    arms = rounds.arms(run.config)
    base = rounds.base_of(arms)
    rates = rounds.rates(arms, (rank.windows for rank in run.ranks))
    lines = [f"{len(disturbed & set(range(len(rates))))} of {len(rates)} rounds beside a busy loop"]
    for index, arm in enumerate(run.config["rounds"]):
        if index == base:
            continue
        quiet = [rate for number, rate in enumerate(rates) if number not in disturbed]
        over_all, without = (in_words(rounds.ratios(values, index, base)) for values in (rates, quiet))
        lines.append(f"{arm['name']}: speedup over all rounds {over_all}, over those without the loop {without}")
    return lines


if __name__ == "__main__":
    main()
