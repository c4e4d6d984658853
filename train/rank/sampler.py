"""What one rank uses of its cores, its memory and its GPU, sampled by a process of its own beside it.

`python -m train.rank.sampler PID PERIOD_S [GPU]` prints a sample a line until it is ended or the rank is gone. The rank
keeps these lines in a file without a name, so that it neither reads nor writes any while it trains.
"""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator

import psutil

from train.record.record import Usage

_PR_SET_PDEATHSIG = 1
_MIB = 1 << 20

# seconds since the epoch, CPU time in s, resident bytes, share of the GPU's time, bytes of its memory
Sample = tuple[float, float, int, float | None, int | None]
_Gpu = tuple[float | None, int | None]


class Sampler:
    """The process beside this rank, from its start to `stop`; it ends with the rank, however that ends."""

    def __init__(self, period_s: float, gpu: str | None) -> None:
        """Start it. It computes on the cores that this process is bound to.

        Args:
            period_s: time between two samples.
            gpu: index or UUID of the rank's GPU, None without one.
        """
        self._lines = tempfile.TemporaryFile("w+")  # noqa: SIM115, open until `stop`
        command = [sys.executable, "-m", "train.rank.sampler", str(os.getpid()), str(period_s), *([gpu] if gpu else [])]
        self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._lines)

    def stop(self, started_at: float) -> Usage:
        """End the process and give what it saw; times count from `started_at`, seconds since the epoch."""
        self._process.kill()
        self._process.wait()
        self._lines.seek(0)
        return collected((line for line in self._lines if line.endswith("\n")), started_at)


def collected(lines: Iterable[str], started_at: float) -> Usage:
    """The samples of whole lines, as columns. Times count from `started_at`, seconds since the epoch."""
    usage = Usage()
    for line in lines:
        at, cpu_s, memory_bytes, gpu_fraction, gpu_memory_bytes = json.loads(line)
        usage.at_s.append(round(at - started_at, 3))
        usage.cpu_s.append(cpu_s)
        usage.memory_bytes.append(memory_bytes)
        usage.gpu_fraction.append(gpu_fraction)
        usage.gpu_memory_bytes.append(gpu_memory_bytes)
    return usage


def gpu_values(line: str) -> _Gpu:
    """What one line of nvidia-smi says, "87, 1024": percent of the time, MiB. None for what it cannot, "[N/A]"."""

    def number(word: str) -> float | None:
        return float(word) if word.strip().replace(".", "", 1).isdigit() else None

    busy, _, memory = line.partition(",")
    percent, mib = number(busy), number(memory)
    return None if percent is None else percent / 100, None if mib is None else int(mib * _MIB)


def _ticks(period_s: float, gpu: str | None) -> Iterator[_Gpu]:
    """Once a period what the GPU does. Without one, at whole periods of the clock: so all ranks sample together."""
    if gpu and shutil.which("nvidia-smi"):
        command = ["nvidia-smi", f"--id={gpu}", "--query-gpu=utilization.gpu,memory.used"]
        command += ["--format=csv,noheader,nounits", f"--loop-ms={round(1000 * period_s)}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
            assert running.stdout
            yield from map(gpu_values, running.stdout)
    while True:  # nvidia-smi ended: it does not know this GPU, or may not look at it
        yield None, None
        left = period_s - time.time() % period_s
        time.sleep(left if left > period_s / 2 else left + period_s)


def samples(pid: int, period_s: float, gpu: str | None) -> Iterator[Sample]:
    """Samples of the process `pid`, until it is gone.

    nvidia-smi's share of the GPU's time is that in which any kernel ran on it, not how much of it was in use.
    """
    process = psutil.Process(pid)
    for gpu_fraction, gpu_memory_bytes in _ticks(period_s, gpu):
        try:
            cpu, memory_bytes = process.cpu_times(), process.memory_info().rss
        except psutil.NoSuchProcess:
            return
        yield time.time(), cpu.user + cpu.system, memory_bytes, gpu_fraction, gpu_memory_bytes


def main(pid: int, period_s: float, gpu: str | None = None) -> None:
    """Print samples of the parent process `pid` until it is gone."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() == pid:  # else it went before it could be said that this process shall go with it
        for sample in samples(pid, period_s, gpu):
            print(json.dumps(sample), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:4])
