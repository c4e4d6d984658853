"""Time and memory of reading, checking and tabulating many run records: `python benchmarks/read_records.py`.

The aim: 10,000 records of 100 steps x 8 ranks in under 30 s and 1 GiB on 2 cores, and linear in the number of records.
Every record is a file of its own, with step times that differ, with a checksum, and checked as one that was measured.
"""

import argparse
import os
import random
import resource
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT)]

from analysis.table import loading  # noqa: E402
from tests.helpers.own_records import make_record, save  # noqa: E402


def write(folder: Path, count: int, steps: int, ranks: int) -> None:
    """`count` records in `folder`: four models, 1 to `ranks` ranks' worth of repeats."""
    for i in range(count):
        run = make_record(model=("vgg16", "resnet50")[i % 2], nodes=ranks, steps=steps, repeat=i, step_s=0.1)
        for rank in run.ranks:
            rank.step_times_s = [random.uniform(0.09, 0.11) for _ in range(steps)]
        timed_s = max(sum(rank.step_times_s) for rank in run.ranks)
        for rank in run.ranks:
            rank.phases_s["timed"] = timed_s
        save(run, folder)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 10_000])
    parser.add_argument("--steps", type=int, default=100)
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--cores", type=int, default=2)
    options = parser.parse_args()
    os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[: options.cores])
    for count in options.records:
        with tempfile.TemporaryDirectory() as folder:
            write(Path(folder), count, options.steps, options.ranks)
            size = sum(path.stat().st_size for path in Path(folder).rglob("record.json"))
            start = time.perf_counter()
            local = loading.local(Path(folder))
            seconds = time.perf_counter() - start
            runs = local.table["record"].nunique()
        own_kib, worker_kib = (
            resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        peak = own_kib + options.cores * worker_kib
        print(
            f"{count} records, {size / 1e6:.0f} MB: {runs} tabulated ({len(local.table)} rows) in {seconds:.1f} s, "
            f"{1e3 * seconds / count:.2f} ms a record, at most {peak / 2**20:.2f} GiB with {options.cores} workers"
        )


if __name__ == "__main__":
    main()
