"""The NVIDIA GPUs of this machine, read through NVML, the management library that comes with NVIDIA's driver.

Without a driver there are none. `nvml` is the module pynvml of the package nvidia-ml-py.
"""

from __future__ import annotations

import ctypes
import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pynvml

_LIBRARY = "libnvidia-ml.so.1"  # NVML itself
_PATIENCE_S = 10.0


@dataclass(frozen=True)
class GpuUse:
    """What a GPU does at one moment; None for what it does not report."""

    fraction: float | None  # of the driver's sample period (1 s at most) in which any kernel ran, 0 to 1
    memory_bytes: int | None  # allocated on the GPU, by all processes


UNKNOWN = GpuUse(None, None)


def names(patience_s: float = _PATIENCE_S) -> list[str]:
    """The names of the GPUs, in the order of the PCI bus; empty without a driver, or if it does not answer in time.

    Another process asks the driver: while a driver hangs, a process inside it can neither continue nor be killed.
    """
    try:
        ctypes.CDLL(_LIBRARY)
    except OSError:
        return []
    asked = subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        answer, _ = asked.communicate(timeout=patience_s)
    except subprocess.TimeoutExpired:
        asked.kill()  # without waiting for its end
        print(f"warning: NVIDIA's driver did not answer within {patience_s:g} s: GPUs are not named", file=sys.stderr)
        return []
    return list(json.loads(answer)) if asked.returncode == 0 else []


def ask_names(nvml: Any = pynvml) -> list[str]:
    """As `names`, but asks the driver from this process, for as long as it takes."""
    try:
        nvml.nvmlInit()
    except pynvml.NVMLError:
        return []
    try:
        return [nvml.nvmlDeviceGetName(handle) for handle in _handles(nvml)]
    except pynvml.NVMLError:
        return []
    finally:
        nvml.nvmlShutdown()


def reader(gpu: str, nvml: Any = pynvml) -> Callable[[], GpuUse]:
    """A function that reads the use of a GPU; it returns UNKNOWN where there is no driver or no such GPU.

    NVML stays open until the process ends. A driver that hangs holds up the caller: call it from a process of its own.

    Args:
        gpu: as in CUDA_VISIBLE_DEVICES: an index, the UUID of a GPU (`GPU-...`) or its beginning, or that of a MIG
            instance (`MIG-...`). NVML numbers GPUs by PCI bus; CUDA does with CUDA_DEVICE_ORDER=PCI_BUS_ID, or where
            all GPUs are of one model.
    """
    try:
        nvml.nvmlInit()
        handle = _find(gpu, nvml)
    except pynvml.NVMLError:
        return lambda: UNKNOWN
    return lambda: _use(handle, nvml)


def _handles(nvml: Any) -> list[Any]:
    return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]


def _find(gpu: str, nvml: Any) -> Any:
    """The handle of a GPU or MIG instance. Raises NVMLError where there is none."""
    if gpu.isdigit():
        return nvml.nvmlDeviceGetHandleByIndex(int(gpu))
    if gpu.startswith("GPU-"):
        for handle in _handles(nvml):
            if nvml.nvmlDeviceGetUUID(handle).startswith(gpu):
                return handle
    return nvml.nvmlDeviceGetHandleByUUID(gpu)


def _use(handle: Any, nvml: Any) -> GpuUse:
    return GpuUse(
        fraction=_or_none(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),  # percent
        # Version 2 does not count what the driver reserves for itself, as nvidia-smi does not.
        memory_bytes=_or_none(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used),
    )


def _or_none(read: Callable[[], Any]) -> Any:
    """What is read, None where the GPU does not report it: a MIG instance has no utilisation."""
    try:
        return read()
    except pynvml.NVMLError:
        return None


if __name__ == "__main__":
    print(json.dumps(ask_names()))
