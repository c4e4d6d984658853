"""The process that samples a rank: its lines, its samples, and its end, which is no later than that of the rank."""

import os
import signal
import subprocess
import sys
import time

import psutil
import pytest

from record import record_summary
from train.rank import sampler
from train.rank.gpus import UNKNOWN, GpuReading


def test_a_sample_has_the_use_of_the_process_and_of_its_gpu():
    begin = time.time()
    sample = next(sampler.samples(os.getpid(), 1.0, lambda: GpuReading(0.87, 2**30)))
    at, cpu_s, memory_bytes, gpu_fraction, gpu_memory_bytes = sample
    assert begin <= at <= time.time()
    assert cpu_s > 0
    assert memory_bytes > 2**20
    assert (gpu_fraction, gpu_memory_bytes) == (0.87, 2**30)


def test_a_clock_that_is_set_moves_no_sample(monkeypatch):
    taken = sampler.samples(os.getpid(), 0.01, lambda: UNKNOWN)
    first, *_ = next(taken)
    monkeypatch.setattr(sampler.time, "time", lambda: first - 3600.0)
    assert first < next(taken)[0] < first + 60


@pytest.mark.slow
def test_samples_end_with_their_process():
    ended = subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE)
    taken = sampler.samples(ended.pid, 0.01, lambda: UNKNOWN)
    next(taken)
    ended.communicate()
    assert list(taken) == []


@pytest.mark.slow
def test_a_sampler_that_cannot_be_killed_is_left_alone(monkeypatch):
    monkeypatch.setattr(sampler, "KILL_TIMEOUT_S", 0.1)
    process_sampler = sampler.Sampler(60, None)
    process = process_sampler.process
    monkeypatch.setattr(process, "kill", lambda: None)  # as if it were inside a driver that hangs
    try:
        process_sampler.stop(time.time())
        assert process.poll() is None
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()


@pytest.mark.slow
def test_a_busy_rank_and_its_memory_are_sampled():
    started_at = time.time()
    process_sampler = sampler.Sampler(0.1, None)
    memory = bytearray(200 * 2**20)
    memory[::4096] = b"x" * len(memory[::4096])
    early = []
    while len(early) < 4 or early[-1][1] - early[0][1] < 0.2:  # until the samples span a fifth of a second of CPU time
        early += process_sampler.new_samples(started_at)  # while the process goes on
    used = record_summary.usage_columns([*early, *process_sampler.stop(started_at)])
    assert used.at_s == sorted(set(used.at_s))  # each sample once
    assert used.memory_bytes[-1] > 200 * 2**20
    # One thread: no more CPU time than time. It may lose its core between the readings of both.
    assert used.cpu_s[-1] - used.cpu_s[0] < used.at_s[-1] - used.at_s[0] + 0.5
    assert not psutil.pid_exists(process_sampler.process.pid)


_KILLED = """
import os, signal
from train.rank.sampler import Sampler
sampler = Sampler(0.2, None)
while not sampler.new_samples(0.0):
    __import__("time").sleep(0.01)
print(sampler.process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.mark.slow
def test_the_sampler_dies_with_the_rank():
    rank = subprocess.run([sys.executable, "-c", _KILLED], stdout=subprocess.PIPE, text=True, timeout=240)
    deadline = time.time() + 240
    while psutil.pid_exists(int(rank.stdout)) and time.time() < deadline:
        time.sleep(0.05)
    assert not psutil.pid_exists(int(rank.stdout))
