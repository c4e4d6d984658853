"""Samples of one rank's use of cores, memory and GPU, taken by a separate process.

`python -m train.rank.sampler PID PERIOD_S [GPU]` prints one sample per line until it is killed or the rank has ended.
The lines go to an unnamed temporary file, so that the rank neither reads nor writes any while it trains.
"""

import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator

import psutil

from record.record_summary import Sample
from train.rank import gpus, process

KILL_TIMEOUT_S = 5.0  # for the end of a process that was killed


class Sampler:
    """The sampling process of this rank, from its start to `stop`. It ends with the rank, however that ends."""

    def __init__(self, period_s: float, gpu: str | None) -> None:
        """Start the process, on the cores that this process is bound to. gpu: as in CUDA_VISIBLE_DEVICES."""
        self._lines = tempfile.TemporaryFile()  # noqa: SIM115, open until the rank ends
        self._read = 0  # bytes
        command = [sys.executable, "-m", "train.rank.sampler", str(os.getpid()), str(period_s), *([gpu] if gpu else [])]
        self.process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=self._lines)

    def new_samples(self, started_at: float) -> list[Sample]:
        """Return the samples since the last call; times count from `started_at`, seconds since the epoch."""
        # Not by seek and read: the process writes at the offset that both have in common.
        text = os.pread(self._lines.fileno(), os.fstat(self._lines.fileno()).st_size - self._read, self._read)
        whole = text[: text.rfind(b"\n") + 1]
        self._read += len(whole)
        lines = map(json.loads, whole.decode().splitlines())
        return [(round(at - started_at, 3), *values) for at, *values in lines]

    def stop(self, started_at: float) -> list[Sample]:
        """Kill the process and return the samples since the last call of `new_samples`.

        A process inside a GPU driver that hangs cannot be killed. It stays, and its samples end there.
        """
        self.process.kill()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(KILL_TIMEOUT_S)
        return self.new_samples(started_at)


def samples(pid: int, period_s: float, read_gpu: Callable[[], gpus.GpuReading]) -> Iterator[Sample]:
    """Yield samples of the process `pid` until it ends, at whole periods of the clock: all ranks sample together."""
    rank = psutil.Process(pid)
    epoch = time.time() - time.perf_counter()  # a system clock that is set from now on moves no sample
    while True:
        try:
            cpu, at = rank.cpu_times(), epoch + time.perf_counter()
            memory_bytes = rank.memory_info().rss
        except psutil.NoSuchProcess:
            return
        gpu = read_gpu()
        yield at, cpu.user + cpu.system, memory_bytes, gpu.fraction, gpu.memory_bytes
        wait_s = period_s - (epoch + time.perf_counter()) % period_s
        time.sleep(wait_s if wait_s > period_s / 2 else wait_s + period_s)


def main(pid: int, period_s: float, gpu: str | None = None) -> None:
    """Print samples of the parent process `pid` until it has ended."""
    process.end_with_parent(signal.SIGKILL)
    if os.getppid() != pid:  # the rank ended before the kernel was asked to end this process with it
        return
    for sample in samples(pid, period_s, gpus.reader(gpu) if gpu else lambda: gpus.UNKNOWN):
        print(json.dumps(sample), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), *sys.argv[3:4])
