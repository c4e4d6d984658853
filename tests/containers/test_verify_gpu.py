"""The parts of `make test-gpu` that need no GPU: its commands, and how it reads nvidia-smi and records."""

import json
import shlex
from dataclasses import replace

import pytest

from containers import verify_gpu
from containers.verify import Skipped
from containers.verify_gpu import Gpu
from record import schema as record
from record.schema import GpuState, Usage
from tests.helpers import GOLDEN
from tests.helpers.run_records import as_sweep, make_record
from train.rank.gpus import GpuReading, InstalledGpus

SMI = (GOLDEN / "nvidia-smi.csv").read_text()


def test_the_commands_are_the_golden_ones_and_ask_for_a_container_only_where_one_is_named():
    options = {"variables": {"CONTAINER": "docker", "HOME": "/root"}}
    commands = [verify_gpu.scaling("fp16", 4, **options), verify_gpu.overhead(4, **options)]
    commands += [
        verify_gpu.allreduce(4, **options),
        verify_gpu.too_many_ranks(4, **options),
        verify_gpu.setup(**options),
    ]
    assert [shlex.join(command) for command in commands] == (GOLDEN / "gpu-commands.txt").read_text().splitlines()
    assert not any(word.startswith("CONTAINER") for word in verify_gpu.allreduce(2, variables={}))


def test_what_nvidia_smi_prints_is_read():
    first, second = verify_gpu.parse_gpus(SMI)
    assert (first.index, first.name, first.driver) == (0, "Tesla P100-PCIE-16GB", "550.54.15")
    assert (first.memory_bytes, first.use) == (16 * 2**30, GpuReading(0.97, 15213 * 2**20))
    assert (second.memory_bytes, second.use) == (None, GpuReading(None, 12 * 2**20))
    with pytest.raises(AssertionError, match="not understood: No devices were found"):
        verify_gpu.parse_gpus("No devices were found")


def test_the_sampler_must_agree_with_nvidia_smi():
    first, second = verify_gpu.parse_gpus(SMI)
    near = GpuReading(0.9, first.use.memory_bytes + 2**20)
    assert verify_gpu.agree(first, near) == "GPU 0: 15214 MiB by both"
    assert verify_gpu.agree(second, GpuReading(None, 12 * 2**20)) == "GPU 1: 12 MiB by both"
    with pytest.raises(AssertionError, match=r"GPU 0: use: 0.97 and 0.1"):
        verify_gpu.agree(first, GpuReading(0.1, first.use.memory_bytes))
    with pytest.raises(AssertionError, match="GPU 0: memory: nvidia-smi says 15951986688, the sampler None"):
        verify_gpu.agree(first, GpuReading(0.97, None))


def as_json(run):
    """The record as the JSON values of its file."""
    return json.loads(record.dumps(run))


def test_use_and_memory_of_each_gpu_are_in_the_record():
    run = make_record(nodes=2)
    for rank in run.ranks:
        rank.usage = Usage([1.0, 2.0, 3.0], [1.0] * 3, [2**30] * 3, [0.0, 0.9, 0.2], [2**20, 8 * 2**30, 2**30])
    assert verify_gpu.gpu_usage([as_json(run)]) == "GPU use up to 90 %, memory up to 8.0 GiB"
    run.ranks[1].usage.gpu_memory_bytes = [None] * 3
    with pytest.raises(AssertionError, match="rank 1: no memory of its GPU"):
        verify_gpu.gpu_usage([as_json(run)])


def test_the_bandwidth_beside_that_of_the_link_worked_by_hand():
    # 1 GiB in 0.1 s on the slower of two ranks: 10.7 GB/s, x 2 (2 - 1) / 2
    times = {1 << 20: [[0.01]] * 2, 1 << 30: [[0.09], [0.1]]}
    ring = [[("tcp_ring", "host0", 10**9, 0.5)]] * 2
    run = as_sweep(make_record("allreduce_bench", nodes=2, swept={"nodes": 2}), times, ring)
    assert verify_gpu.fastest([as_json(run)]) == "1024 MiB on 2 GPUs: bus bandwidth 10.7 GB/s, TCP ring 2.0 GB/s"


def test_without_a_gpu_nothing_is_tested_and_that_is_reported(monkeypatch, capsys):
    monkeypatch.setenv("PATH", "/nonexistent")
    assert verify_gpu.main() == 2
    assert "no nvidia-smi: NVIDIA's driver is not installed; nothing was tested" in capsys.readouterr().err


def test_the_driver_and_the_capability_must_suffice_and_an_exchange_needs_two_gpus(monkeypatch):
    gpu = Gpu(0, "GPU-1", "Tesla P100", "550.54.15", 2**34, GpuReading(None, None))
    state = GpuState("Tesla P100", "550.54.15", None, None, None, None, "6.0")
    monkeypatch.setattr(verify_gpu, "host_gpus", lambda: [gpu])
    monkeypatch.setattr(verify_gpu.gpus, "query", lambda: InstalledGpus([state]))
    assert verify_gpu.driver("") == "1 x Tesla P100, 16 GiB; compute capability 6.0; driver 550.54.15"
    with pytest.raises(Skipped, match="one GPU: an exchange needs two"):
        verify_gpu.gpu_count()
    monkeypatch.setattr(verify_gpu, "host_gpus", lambda: [replace(gpu, memory_bytes=None)])
    assert "Tesla P100, memory not known; " in verify_gpu.driver("")
    state.driver, state.compute_capability = "470.82.01", "3.7"
    with pytest.raises(AssertionError, match=r"driver 470.*525.60 or newer; compute capability 3.7: no code"):
        verify_gpu.driver("")
