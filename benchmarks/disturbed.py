"""The effect of a busy loop on one core, half of the time, on a speedup, with and without the rounds that do not count.

    python -m benchmarks.disturbed --runs 10 --budget-s 180 experiment=weak_scaling model=resnet50 nodes=2

The loop runs on the last core for 10 s, then not for 10 s, and so on. Beside a rank it gets half of the core. The
rounds of the launch without it give the truth. The median of the rounds that count, which are selected by the kernel's
counters alone, must lie in its interval. docs/validation.md has the result.
"""

from __future__ import annotations

import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks.common import Row, curve_of, launch_command, launch_overrides, options, show
from common import affinity
from record import protocol, rounds
from record import schema as record
from record.disturbance import run_selection
from record.parts import read_part
from record.schema import RunRecord

_IN_TURN_S = 10.0  # with the loop, then without
_EVERY_S = 0.2


def main() -> None:
    parser = options("disturbed", __doc__, runs=(10, "launches beside the loop"), budget_s=(180.0, "of each"))
    parser.add_argument("overrides", nargs="+", help="as experiment=weak_scaling model=resnet50 nodes=2")
    arguments = parser.parse_intermixed_args()
    rows = []
    for number in range(arguments.runs):
        with tempfile.TemporaryDirectory() as folder:
            results = Path(folder)
            budget_s = arguments.budget_s
            overrides = launch_overrides(results, arguments.overrides, design="rounds", budget_s=budget_s, repeats=1)
            with subprocess.Popen(launch_command(overrides, curve_of(overrides)), stdout=subprocess.DEVNULL) as job:
                beside_loop = disturb(job, results)
            if job.returncode:
                sys.exit(f"the launch failed with status {job.returncode}")
            rows += compare(record.load(next(iter(record.find(results)))), beside_loop)
        print(f"run {number + 1} of {arguments.runs}", file=sys.stderr, flush=True)
    show(rows)
    compared = [row["within"] for row in rows if row["within"] != "no interval"]
    without = len(rows) - len(compared)
    print(f"\nwithin the interval of the truth: {compared.count('yes')} of {len(compared)}; {without} have none")


def disturb(job: subprocess.Popen, results: Path) -> set[int]:
    """Run the busy loop in turns until the job ends. Returns the numbers of the rounds beside it."""
    beside_loop: set[int] = set()
    code = f"import os\nos.sched_setaffinity(0, [{max(affinity.usable_cores())}])\nwhile True: pass"
    with subprocess.Popen([sys.executable, "-c", code]) as loop:
        try:
            began = time.monotonic()
            while job.poll() is None:
                runs = (time.monotonic() - began) // _IN_TURN_S % 2 == 1
                loop.send_signal(signal.SIGCONT if runs else signal.SIGSTOP)
                if runs and (number := finished(results)) is not None:
                    beside_loop.add(number)
                time.sleep(_EVERY_S)
        finally:
            loop.kill()
    return beside_loop


def finished(results: Path) -> int | None:
    """Return the rounds that rank 0 has finished, which is the number of the current one; None before the first."""
    for folder in results.glob("*/*/*/r*"):
        for path in protocol.part_paths(folder, 0):
            if windows := read_part(path).windows:
                return windows[-1].round + 1
    return None


def compare(run: RunRecord, beside_loop: set[int]) -> Iterator[Row]:
    """Yield a row for each arm: its speedup over the rounds without the loop, those that count, and all."""
    base, rates = rounds.base_of(rounds.arms(run.config)), rounds.run_rates(run)
    counting = run_selection(run).counting
    numbers = {
        "without the loop": [number for number in range(len(rates)) if number not in beside_loop],
        "that count": [*counting],
        "all": [*range(len(rates))],
    }
    for index, arm in enumerate(run.config["rounds"]):
        if index == base:
            continue
        speedups = {
            name: rounds.speedup_in({n: rates[n] for n in chosen}, index, base) for name, chosen in numbers.items()
        }
        truth, counted = speedups["without the loop"], speedups["that count"]
        within = "no interval"
        if truth and counted and truth.has_interval:
            within = "yes" if truth.low <= counted.value <= truth.high else "no"
        counts = f"{len(counting)} of {len(rates)}, {len(beside_loop & {*numbers['all']})} beside the loop"
        texts = {f"rounds {name}": speedup.text() if speedup else "" for name, speedup in speedups.items()}
        yield {"arm": arm["name"], "count": counts, **texts, "within": within}


if __name__ == "__main__":
    main()
