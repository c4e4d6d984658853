"""Run a user's own program once for all ranks of a point, and record the rate that it prints.

The launcher starts `python -m train.program --run-dir FOLDER`; the program starts its processes itself, here or on the
hosts that the placeholders of its command name. Only the program runs in a container: its image needs nothing of the
kit. The command that starts the container follows FOLDER.
"""

import argparse
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path

from train.config.program import filled, host_slots
from train.config.schema import RunConfig
from train.rank import environment, placement, process
from train.record import affinity, logs, protocol
from train.record.parts import PartWriter
from train.record.record import Failure, Host
from train.task import Task, assigned

_GRACE_S = 5.0  # less than the launcher's grace for this process
_SEED_STEP = 1000  # seeds for each seed of the experiment, so that launches with different ones share none


def values(config: RunConfig, hosts: tuple[str, ...], repeat: int) -> dict[str, object]:
    """Return the values of the placeholders."""
    return {
        "ranks": config.ranks,
        "nodes": config.nodes,
        "ranks_per_node": config.ranks_per_node,
        "hosts": host_slots(hosts, config.ranks_per_node),
        "host_names": ",".join(dict.fromkeys(hosts)),
        "threads": config.threads_per_rank or 1,
        "batch_per_rank": config.batch_per_rank,
        "global_batch": config.global_batch,
        "seed": config.seed * _SEED_STEP + repeat,
    }


def main() -> int:
    """Run the program; returns the exit status: 0 only if it succeeded and printed one rate."""
    parser = argparse.ArgumentParser(prog="python -m train.program", description=__doc__.splitlines()[0])
    parser.add_argument("--run-dir", type=Path, required=True, help="the run folder, from the launcher")
    parser.add_argument("container", nargs=argparse.REMAINDER, help="what runs a command in its container, if any")
    options = parser.parse_args()
    folder = options.run_dir
    task = assigned(folder)
    config = task.config
    peers = os.environ.get(protocol.PEERS, "")
    hosts = tuple(peers.split(",")) if peers else ("localhost",) * config.nodes
    parts = _parts(folder, config, hosts)
    failure = _run(task, options.container, folder, hosts, parts)
    peak_bytes = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
    for rank, part in enumerate(parts):
        part.add(peak_memory_bytes=peak_bytes, failure=None if rank else failure, finished=failure is None)
    if failure:
        print(failure.reason, file=sys.stderr)
    return 1 if failure else 0


def _parts(folder: Path, config: RunConfig, hosts: tuple[str, ...]) -> list[PartWriter]:
    """Return a part for each rank, with its host, and its cores if all nodes share this machine.

    This process, and so the program, is bound to the cores of all ranks.
    """
    available, hostname = affinity.usable_cores(), socket.gethostname()
    this_host = environment.host(available)
    local = set(hosts) == {"localhost"}
    cores = placement.cores_of_ranks(config, available) if local else [[]] * config.ranks
    names = [hostname if host == "localhost" else host for host in hosts for _ in range(config.ranks_per_node)]
    if local:
        os.sched_setaffinity(0, {core for rank_cores in cores for core in rank_cores})
    os.environ.setdefault("OMP_NUM_THREADS", str(config.threads_per_rank or 1))
    descriptions = [
        this_host
        if name == hostname
        else Host(name, "not recorded: on another host", cores=0, memory_bytes=0, kernel="", gpus=[])
        for name in dict.fromkeys(names)
    ]
    parts = [
        PartWriter(
            protocol.part_path(folder, rank, name, os.getpid()), rank=rank, host=name, cores=cores[rank],
            local_rank=rank if local else rank % config.ranks_per_node, node=rank // config.ranks_per_node,
        )
        for rank, name in enumerate(names)
    ]  # fmt: skip
    parts[0].add(environment=environment.collect(descriptions, with_horovod=False))
    return parts


def _run(
    task: Task, container: list[str], folder: Path, hosts: tuple[str, ...], parts: list[PartWriter]
) -> Failure | None:
    """Run the program and add its rate and times to the parts; returns the failure, None after a success."""
    config = task.config
    assert config.program is not None
    argv = container + filled(config.program.command, values(config, hosts, task.repeat))
    log, failed = protocol.rank_log(folder, 0), partial(Failure, rank=0, host=socket.gethostname())
    started_at = time.time()
    started_s = max(0.0, started_at - float(os.environ.get(protocol.JOB_STARTED_AT, started_at)))
    for part in parts:
        part.add(phase="timed", phases_s={"start": started_s}, began_at=started_at)
    began = time.perf_counter()
    try:
        status = _wait(argv, log)
    except OSError as error:
        why = f"{argv[0]}: {error.strerror}; give its path, or add its folder to PATH (docs/program.md)"
        return failed(why, phase="start")
    for part in parts:
        part.add(phases_s={"timed": time.perf_counter() - began})
    if status:
        why = f"exit status {status}" if status > 0 else f"signal {signal.Signals(-status).name}"
        return failed(f"the command ended with {why}", phase="timed", exit_code=status)
    try:
        rate = logs.printed_rate(log.read_text(errors="replace"), config.program.rate, config.global_batch or 1)
    except logs.RateError as error:
        return failed(str(error), phase="timed")
    parts[0].add(printed=rate)
    return None


def _wait(argv: list[str], log: Path) -> int:
    """Run a command to its end, with its output in a file.

    SIGTERM is passed on to it. The first process of a container ignores that by default: the remaining processes of the
    job are killed after a while.
    """
    with log.open("wb") as output:
        env = placement.without_rank()
        child = subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT, env=env)

    def end(*_: object) -> None:
        child.terminate()
        threading.Timer(_GRACE_S, process.kill_job, [os.environ[protocol.JOB_ID]]).start()

    signal.signal(signal.SIGTERM, end)
    return child.wait()


if __name__ == "__main__":
    sys.exit(main())
