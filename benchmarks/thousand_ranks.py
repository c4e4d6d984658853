"""The start of 1,024 ranks: the roll call, and the two rendezvous of the kit.

    python -m benchmarks.thousand_ranks [--ranks 1024]

The ranks are threads or small processes on this machine; they call the real code. Gloo's mesh of connections, half a
million for 1,024 ranks, and Horovod's negotiation are not included. docs/clusters.md has the conclusions.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import resource
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from benchmarks.common import options, show
from record import protocol
from record.run_files import source_digest, source_files
from record.schema import Host
from tests.helpers.thread_ranks import ThreadRank, on_all_ranks
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.schema import RunConfig
from train.rank import process, roll_call
from train.rank.roll_call import Details, Expected, Present
from train.transport import rendezvous
from train.transport.rendezvous import Secret
from train.transport.tcp_group import connect_on_machine

RANKS_PER_NODE = 4
_STACK_BYTES = 256 * 1024
_TIMEOUT_S = 60.0
_LOGIN_FILES = 1024  # open files


@dataclass(frozen=True)
class Job:
    """The ranks of a job in the roll call."""

    present: list[Present]
    details: Details
    config: RunConfig
    expected: Expected  # the values that they must have


def job_of(ranks: int) -> Job:
    """Return a job of so many ranks."""
    overrides = ["experiment=weak_scaling", "model=tiny", f"nodes={ranks // RANKS_PER_NODE}"]
    config = load([*overrides, f"ranks_per_node={RANKS_PER_NODE}"])
    files = dict(source_files())
    packages = {f"package-{number}": f"1.{number}" for number in range(80)}
    digest, present = source_digest(files), []
    for rank in range(ranks):
        node, local = divmod(rank, RANKS_PER_NODE)
        host = Host(f"node{node:04d}", "CPU", 8, 2**36, "6.1", [])
        present.append(Present(rank, host, (2 * local, 2 * local + 1), None, None, "hash", digest, packages))
    present = [pickle.loads(pickle.dumps(each)) for each in present]  # as a rank receives them: they share no strings
    details = Details({"nodes": config.nodes, "model": {"name": "tiny"}}, files, packages)
    return Job(present, details, config, Expected(hosts=config.nodes))


def hold(job: Job) -> float:
    """Return the median CPU time [s] of a rank for a roll call that all ranks, as threads, hold at once, and agree."""

    def answer(rank: ThreadRank) -> float:
        began = time.thread_time()
        roll_call.hold(job.present[rank.rank], job.details, job.expected, job.config, rank.gather)
        return time.thread_time() - began

    threading.stack_size(_STACK_BYTES)
    return statistics.median(on_all_ranks(len(job.present), answer))


def refuse(job: Job, odd: Present) -> tuple[float, str]:
    """Return the CPU time [s] of rank 0 if the last rank differs, and its message."""
    present = [*job.present[:-1], odd]

    def gather(value: Any, kind: Any) -> list[Any]:
        if isinstance(value, Present):
            return present
        details = Details(value.config, {**value.source, "train/worker.py": "other"}, value.packages)
        return [value] * (len(present) - 1) + [details]

    began = time.thread_time()
    try:
        roll_call.hold(present[0], job.details, job.expected, job.config, gather)
    except ConfigError as error:
        return time.thread_time() - began, str(error)
    return time.thread_time() - began, "nothing"


def meet_rank_groups(ranks: int) -> float:
    """Return the seconds in which so many processes connect as rank groups do, and pass a barrier."""
    return _in_processes(ranks, _meet_in_rank_group)


def _meet_in_rank_group(rank: int, ranks: int, folder: Path) -> None:
    process.allow_open_files(ranks)  # as a rank does before it connects to the others
    group = connect_on_machine(folder, rank, ranks)
    assert group.gather(rank, int) == list(range(ranks))
    group.barrier()


def meet_as_srun_does(ranks: int) -> float:
    """Return the seconds in which so many processes find rank 0's server through the shared folder, as under Slurm."""
    return _in_processes(ranks, _meet_in_slurm_step)


def _meet_in_slurm_step(rank: int, ranks: int, folder: Path) -> None:
    node, local = divmod(rank, RANKS_PER_NODE)
    os.environ |= {
        "SLURM_STEP_NUM_TASKS": str(ranks),
        "SLURM_STEP_TASKS_PER_NODE": f"{RANKS_PER_NODE}(x{ranks // RANKS_PER_NODE})",
        "SLURM_NODEID": str(node), "SLURM_LOCALID": str(local), "SLURM_PROCID": str(rank),
        "SLURMD_NODENAME": f"node{node:04d}", "SLURM_SRUN_COMM_HOST": "127.0.0.1",
    }  # fmt: skip
    rendezvous.set_gloo_variables(folder)
    assert os.environ["HOROVOD_CROSS_SIZE"] == str(ranks // RANKS_PER_NODE)
    _ask_server(rank)


def _ask_server(rank: int) -> None:
    """Send the first requests of a rank to Horovod's rendezvous server: store its address, and read it again."""
    address = os.environ["HOROVOD_GLOO_RENDEZVOUS_ADDR"], int(os.environ["HOROVOD_GLOO_RENDEZVOUS_PORT"])
    for method, body, expected in (("PUT", b"address", b""), ("GET", None, b"address")):
        connection = HTTPConnection(*address, timeout=_TIMEOUT_S)
        connection.request(method, f"/global/{rank}", body)
        answer = connection.getresponse()
        assert (answer.status, answer.read()) == (200, expected)
        connection.close()


def _in_processes(ranks: int, do: Callable[[int, int, Path], None]) -> float:
    """Return the seconds until so many processes, which begin together with a folder, have all called `do`."""
    context = multiprocessing.get_context("fork")
    begin, ended = context.Event(), context.Barrier(ranks + 1)

    def run(rank: int, folder: Path) -> None:
        if rank == 0:  # to which all others connect
            _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (min(_LOGIN_FILES, hard), hard))
        begin.wait()
        try:
            do(rank, ranks, folder)
        finally:
            ended.wait()  # rank 0 serves the others until all have ended

    with tempfile.TemporaryDirectory() as folder:
        Secret(protocol.secret_folder(Path(folder))).create()
        children = [context.Process(target=run, args=(rank, Path(folder))) for rank in range(ranks)]
        for child in children:
            child.start()
        began = time.perf_counter()
        begin.set()
        ended.wait()
        took_s = time.perf_counter() - began
        for child in children:
            child.join()
    if failed := sum(child.exitcode != 0 for child in children):
        sys.exit(f"{failed} of {ranks} ranks failed")
    return took_s


def main() -> None:
    ranks = options("thousand_ranks", __doc__, ranks=(1024, "of the job")).parse_args().ranks
    process.allow_open_files(ranks)
    rows, job = [], job_of(ranks)
    began = time.perf_counter()
    cpu_s = hold(job)
    size = sum(len(pickle.dumps(present)) for present in job.present) / 2**20
    rows.append([f"roll call ({ranks} threads), all agree", f"{time.perf_counter() - began:.2f} s",
                 f"CPU time of a rank {1e3 * cpu_s:.0f} ms; {size:.2f} MiB reach each"])  # fmt: skip
    last = job.present[-1]
    for name, odd in (
        ("another file", replace(last, source_digest="0" * 12)),
        ("another host", replace(last, host=replace(last.host, host="node0000"))),
    ):
        took_s, answer = refuse(job, odd)
        rows.append([f"roll call, the last rank has {name}: rank 0 alone", f"{took_s:.2f} s", answer[:110]])
    met_s = meet_rank_groups(ranks)
    rows.append([f"rank groups meet ({ranks} processes)", f"{met_s:.2f} s", "TCP, a gather, a barrier"])
    rows.append([f"ranks of srun meet ({ranks} processes)", f"{meet_as_srun_does(ranks):.2f} s", "Horovod's server"])
    show(rows, ["what", "time", "found"])


if __name__ == "__main__":
    main()
