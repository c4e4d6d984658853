"""Run a user's own program once for all ranks of a point, and record the rate that it prints.

The launcher starts `python -m train.program --run-dir FOLDER`; the program starts its processes itself, here or on the
hosts that the placeholders of its command name. Only the program runs in a container: its image needs nothing of the
kit. The command that starts the container follows FOLDER.
"""

import argparse
import os
import resource
import shlex
import signal
import socket
import subprocess
import sys
import time
from dataclasses import replace
from functools import partial
from pathlib import Path

from common import affinity
from common import bounded_files as bounded
from record import protocol
from record.parts import PartWriter
from record.schema import Failure, Host, ProgramFacts
from train.config.printed import RateError, printed_rate
from train.config.program import filled
from train.config.run_config import RunConfig
from train.program import placeholder_values, program_facts, reading
from train.program.child import Child
from train.rank import environment, placement
from train.rank.gpus import visible_gpu
from train.task import Task, assigned


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
    """Return a part for each rank, with its host, and its cores and GPU if all nodes share this machine.

    This process, and so the program, is bound to the cores of all ranks, and sees their GPUs alone.
    """
    affinity.use(config.system.smt)
    available, hostname = affinity.usable_cores(), socket.gethostname()
    this_host = environment.host(available)
    local = set(hosts) == {"localhost"}
    cores = placement.cores_of_ranks(config, available) if local else [[]] * config.ranks
    names = [hostname if host == "localhost" else host for host in hosts for _ in range(config.ranks_per_node)]
    if local:
        affinity.bind({core for rank_cores in cores for core in rank_cores})
    if gpus := _gpus(config, hosts):
        os.environ |= {"CUDA_VISIBLE_DEVICES": ",".join(gpus), "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}  # NVML's numbers
    own_threads = config.program is not None and "{cores}" in config.program.command
    threads = placeholder_values(config, hosts, 0)["cores" if own_threads else "threads"]
    os.environ.setdefault("OMP_NUM_THREADS", str(threads))
    other = Host("", "not recorded: on another host", cores=0, memory_bytes=0, kernel="", gpus=[])
    descriptions = [this_host if name == hostname else replace(other, host=name) for name in dict.fromkeys(names)]
    parts = [
        PartWriter(
            protocol.part_path(folder, rank, name, os.getpid()), rank=rank, host=name, cores=cores[rank],
            local_rank=rank if local else rank % config.ranks_per_node, node=rank // config.ranks_per_node,
        )
        for rank, name in enumerate(names)
    ]  # fmt: skip
    here = environment.collect(descriptions, with_horovod=False)
    parts[0].add(environment=replace(here, versions={}, nccl=None))  # those of the kit, which the program may not use
    return parts


def _gpus(config: RunConfig, hosts: tuple[str, ...]) -> list[str]:
    """Return the GPU of each rank, as in CUDA_VISIBLE_DEVICES; none of other hosts, which this process cannot see."""
    on_gpus = config.device == "gpu" and set(hosts) == {"localhost"}
    return [visible_gpu(rank) for rank in range(config.ranks)] if on_gpus else []


def _run(
    task: Task, container: list[str], folder: Path, hosts: tuple[str, ...], parts: list[PartWriter]
) -> Failure | None:
    """Run the program and add its rate, times and libraries to the parts; returns the failure, None after a success."""
    config = task.config
    program = config.program
    assert program is not None
    fill = partial(filled, values=placeholder_values(config, hosts, task.repeat))
    argv, log = container + fill(program.command), protocol.rank_log(folder, 0)
    failed = partial(Failure, rank=0, host=socket.gethostname())
    cwd = Path(program.folder) if program.folder else folder
    # A container of Docker or Podman ends with its input, and so with this process.
    stdin = os.pipe()[0] if config.container.name in ("docker", "podman") else subprocess.DEVNULL
    version = program_facts.first_line(container + fill(program.version), cwd, stdin) if program.version else ""
    started_at = time.time()
    started_s = max(0.0, started_at - float(os.environ.get(protocol.JOB_STARTED_AT, started_at)))
    for part in parts:
        part.add(phase="timed", phases_s={"start": started_s}, began_at=started_at)
    throttling, child = affinity.throttling(), Child(argv, cwd, log, program.until, program.until_s, stdin)
    try:
        with program_facts.sampled_gpus(_gpus(config, hosts), config.measure.usage_period_s) as gpu_usages:
            counters, began = program_facts.Counters(), time.perf_counter()
            status = child.wait()
            running_s = time.perf_counter() - began
            use, read_bytes, written_bytes = counters.since()
    except OSError as error:
        why = f"{argv[0]}: {error.strerror}; give its path, or add its folder to PATH (docs/program.md)"
        return failed(why, phase="start")
    for part in parts:
        part.add(phases_s={"timed": running_s})
    digests = program_facts.digests(argv, cwd, started_at)
    parts[0].add(
        program=ProgramFacts(
            fill(program.command), digests, version, child.libraries, status, use,
            {path: names for path in digests if (names := environment.compilers(Path(path)))},
            read_bytes, written_bytes, gpu_usages,
        ),
        notes=[note] if (note := affinity.throttling_note(throttling)) else [],
    )  # fmt: skip
    if status != program.exit_status:
        why = f"exit status {status}" if status >= 0 else f"signal {signal.Signals(-status).name}"
        advice = f"; if that is a success: ARGS=program.exit_status={status}" if status >= 0 else ""
        return failed(f"the command ended with {why}{advice}", phase="timed", exit_code=status)
    try:
        if program.file:
            _append(cwd / program.file, log, started_at)
        text, command = log.read_text(errors="replace"), shlex.join(fill(program.command))
        rate = printed_rate(text, reading(config), running_s, command)
    except RateError as error:
        return failed(str(error), phase="timed")
    parts[0].add(printed=rate)
    return None


def _append(file: Path, log: Path, began_at: float) -> None:
    """Add the file that the program wrote to its log, which is kept. Raises RateError if it did not write it now."""
    try:
        if file.stat().st_mtime < began_at - _FILE_CLOCK_S:
            raise RateError(f"program.file={file}: this launch did not write it; it is older")
        with log.open("ab") as output:
            output.write(b"\n" + bounded.read(file))
    except OSError as error:
        raise RateError(f"program.file={file}: {error.strerror}") from error


_FILE_CLOCK_S = 0.1  # by which the times of files lag behind the clock


if __name__ == "__main__":
    sys.exit(main())
