"""Time and memory of reading, checking and tabulating many run records: `python -m benchmarks.read_records`.

`--launcher` times what reads them between launches instead: `make status`, and a step of the queue, which takes a
launch and says which one is next. The aim: of both the time for each record, or launch, does not grow with their
number (`--records 10 100 1000 --ranks 64`).

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
from train.launch import status
from train.launch.launchers import LAUNCHERS
from train.launch.launchers.base import Machine
from train.launch.plan.make import make
from train.launch.plan.queue import Queue
from train.launch.plan.runs import Run
from train.record.files import run_folder, write_once
from train.record.record import RECORD_NAME, RunRecord, dumps
from train.record.summary import record_summary

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


def launcher_times(count: int, ranks: int, steps: int) -> str:
    """Return what `make status` and a step of the queue take beside so many launches of a user's program."""
    with tempfile.TemporaryDirectory() as folder:
        overrides = (
            "experiment=scaling",
            "nodes=1",
            "program.command='run {nodes} {batch_per_rank}'",
            f"results={folder}",
        )
        plan = make(overrides, Machine(2, None), LAUNCHERS)
        planned = [Run(plan.points[0], repeat) for repeat in range(count)]
        for run in planned:
            record = record_of_point(run.repeat, steps, ranks)
            record.summary = record_summary(record)
            write_once(run_folder(run.home, run.repeat, 1) / RECORD_NAME, dumps(record))
        begin = time.perf_counter()
        states = status.counts(Path(folder), [], {})
        status_s = time.perf_counter() - begin
        assert sum(states[planned[0].home].values()) == states[planned[0].home]["done"] == count
        queue = Queue(planned, force=False)
        begin = time.perf_counter()
        queue.add(planned[-1], record, None)
        step_s = time.perf_counter() - begin
    per_record = f"{1e3 * status_s / count:.2f} ms a record"
    return f"{count} records of {ranks} ranks: status {status_s:.2f} s, {per_record}; a step {1e3 * step_s:.1f} ms"


def main() -> None:
    numbers = {"steps": (100, "of a launch"), "rounds": (0, "of a launch; 0: launches of one point")}
    parser = options("read_records", __doc__, **numbers, ranks=(8, "of a launch"), cores=(2, "that it may use"))
    parser.add_argument("--launcher", action="store_true", help="time what the launcher reads")
    parser.add_argument("--records", type=int, nargs="+", default=[1_000, 10_000])
    arguments = parser.parse_args()
    keep_cores(arguments.cores)
    if arguments.launcher:
        for count in arguments.records:
            print(launcher_times(count, arguments.ranks, arguments.steps), flush=True)
        return
    record_of, length = (in_rounds, arguments.rounds) if arguments.rounds else (record_of_point, arguments.steps)
    for count in arguments.records:
        with tempfile.TemporaryDirectory() as folder:
            for repeat in range(count):
                save(record_of(repeat, length, arguments.ranks), Path(folder))
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
