"""Time and memory of reading, checking and tabulating many run records: `python -m benchmarks.read_records`.

The aim: 10,000 records of 100 steps x 8 ranks in under 3.4 s and 0.6 GiB on 2 cores, and linear in the number of
records. `--rounds 30` reads records of launches in rounds, which are ten times as large. Every record is a
separate file, with different step times and a checksum, and checked as a measured one.
"""

import random
import resource
import tempfile
import time
from pathlib import Path

from analysis.table import loading
from benchmarks.common import keep_cores, options
from tests.helpers.run_records import Arm, make_record, make_rounds, save
from train.record.record import RunRecord

MODELS = ("vgg16", "resnet50")


def record_of_point(repeat: int, steps: int, ranks: int) -> RunRecord:
    """Return a launch of one point; ranks have different step times."""
    run = make_record(model=MODELS[repeat % 2], nodes=ranks, steps=steps, repeat=repeat, step_s=0.1)
    for rank in run.ranks:
        rank.step_times_s = [random.uniform(0.09, 0.11) for _ in range(steps)]
    timed_s = max(sum(rank.step_times_s) for rank in run.ranks)
    for rank in run.ranks:
        rank.phases_s["timed"] = timed_s
    return run


def in_rounds(repeat: int, rounds: int, ranks: int) -> RunRecord:
    """Return a launch in rounds of one rank, of all, and of all without allreduce; a window is four steps."""
    arms = (Arm(1), Arm(ranks), Arm(ranks, allreduce=False))
    steps_s = [[random.uniform(0.09, 0.11) for _ in arms] for _ in range(rounds)]
    run = make_rounds(steps_s, arms, steps=4, repeat=repeat, model=MODELS[repeat % 2])
    for window in (window for rank in run.ranks for window in rank.windows):
        window.step_times_s = [step_s * random.uniform(1, 1.001) for step_s in window.step_times_s]
        window.window_s = sum(window.step_times_s) + random.uniform(0, 0.001)
    timed_s = max(sum(window.window_s for window in rank.windows) for rank in run.ranks)
    for rank in run.ranks:
        rank.phases_s["timed"] = timed_s
    return run


def main() -> None:
    numbers = {"steps": (100, "of a launch"), "rounds": (0, "of a launch; 0: launches of one point")}
    parser = options("read_records", __doc__, **numbers, ranks=(8, "of a launch"), cores=(2, "that it may use"))
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 10_000])
    arguments = parser.parse_args()
    keep_cores(arguments.cores)
    make, length = (in_rounds, arguments.rounds) if arguments.rounds else (record_of_point, arguments.steps)
    for count in arguments.records:
        with tempfile.TemporaryDirectory() as folder:
            for repeat in range(count):
                save(make(repeat, length, arguments.ranks), Path(folder))
            size = sum(path.stat().st_size for path in Path(folder).rglob("record.json"))
            start = time.perf_counter()
            local = loading.local(Path(folder))
            seconds = time.perf_counter() - start
            runs = local.table["record"].nunique()
        own_kib, worker_kib = (
            resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
        )
        peak = own_kib + arguments.cores * worker_kib
        print(
            f"{count} records, {size / 1e6:.0f} MB: {runs} tabulated ({len(local.table)} rows) in {seconds:.1f} s, "
            f"{1e3 * seconds / count:.2f} ms a record, at most {peak / 2**20:.2f} GiB with {arguments.cores} workers"
        )


if __name__ == "__main__":
    main()
