"""The NVIDIA GPUs of this machine, read through NVML, the management library that comes with NVIDIA's driver.

Without a driver there are none. `nvml` is the module pynvml of the package nvidia-ml-py.
"""

import ctypes
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec
import pynvml

from common.programs import finished
from common.terminal import show
from record.schema import GpuState

LIBRARY = "libnvidia-ml.so.1"  # NVML itself
MIN_DRIVER = (525, 60)  # of CUDA 12
# The least compute capability that the libraries of uv.lock have code for, by the code that is in their wheels.
_LEAST_CAPABILITY = {"TensorFlow 2.21": (6, 0), "cuDNN 9.10": (5, 0), "NCCL 2.32": (6, 0)}
_TIMEOUT_S = 60.0  # a driver that no process holds open takes seconds for each GPU


@dataclass(frozen=True)
class GpuReading:
    """A GPU at one moment; None: not reported."""

    fraction: float | None = None  # of the driver's sample period (1 s at most) in which any kernel ran, 0 to 1
    memory_bytes: int | None = None  # allocated on the GPU, by all processes
    energy_j: float | None = None  # since its driver was loaded; counted from Volta on, and not by MIG instances
    clock_mhz: float | None = None


UNKNOWN = GpuReading()


@dataclass(frozen=True)
class InstalledGpus:
    """The GPUs of this machine, in the order of the PCI bus."""

    states: list[GpuState]
    topology: str | None = None  # how they and the network cards are linked, as nvidia-smi prints it


def names() -> list[str]:
    """Return the names of the GPUs, in the order of the PCI bus; none without a driver, or if it does not answer."""
    return [state.name for state in query().states]


def problems(gpu: GpuState) -> list[str]:
    """Return why a GPU cannot be used: a driver that is too old, libraries without code for it; none if it can."""
    reasons = []
    if gpu.driver and version(gpu.driver)[:2] < MIN_DRIVER:
        least = ".".join(map(str, MIN_DRIVER))
        reasons.append(f"driver {gpu.driver}: TensorFlow 2.21, cuDNN and NCCL of CUDA 12 need {least} or newer")
    if gpu.compute_capability:
        capability = version(gpu.compute_capability)
        lacking = [f"{name} (from {a}.{b} on)" for name, (a, b) in _LEAST_CAPABILITY.items() if capability < (a, b)]
        if lacking:
            reasons.append(f"compute capability {gpu.compute_capability}: no code for it in {', '.join(lacking)}")
    return reasons


def version(text: str) -> tuple[int, ...]:
    """Return the numbers of a version: "550.54.15" -> (550, 54, 15)."""
    return tuple(int(part) for part in re.findall(r"\d+", text))


def query(timeout_s: float = _TIMEOUT_S) -> InstalledGpus:
    """Return the GPUs and how they are set; none without a driver, or if it does not answer in time.

    A child process asks the driver: if the driver hangs, a process in it can neither continue nor be killed.
    """
    try:
        ctypes.CDLL(LIBRARY)
    except OSError:
        return InstalledGpus([])
    process = subprocess.Popen([sys.executable, "-m", __name__], stdout=subprocess.PIPE, stdin=subprocess.DEVNULL)
    try:
        answer, _ = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()  # without waiting for its end
        show(f"warning: NVIDIA's driver did not answer within {timeout_s:g} s: GPUs are not named", file=sys.stderr)
        return InstalledGpus([])
    try:
        return InstalledGpus([]) if process.returncode else msgspec.json.decode(answer, type=InstalledGpus)
    except msgspec.MsgspecError as error:  # a library that it loads may print, too
        show(f"warning: what asks NVIDIA's driver printed no answer ({error}): GPUs are not named", file=sys.stderr)
        return InstalledGpus([])


def query_driver(nvml: Any = pynvml) -> InstalledGpus:
    """Return the GPUs by asking the driver from this process, without a time limit."""
    try:
        nvml.nvmlInit()
    except pynvml.NVMLError:
        return InstalledGpus([])
    try:
        states = [_state(handle, nvml) for handle in _handles(nvml)]
    except pynvml.NVMLError:
        return InstalledGpus([])
    finally:
        nvml.nvmlShutdown()
    return InstalledGpus(states, _topology() if states else None)


def _state(handle: Any, nvml: Any) -> GpuState:
    """Return how a GPU is set. Raises NVMLError if it has no name."""
    persistence = _or_none(lambda: nvml.nvmlDeviceGetPersistenceMode(handle))
    limit_mw = _or_none(lambda: nvml.nvmlDeviceGetEnforcedPowerLimit(handle))
    capability = _or_none(lambda: nvml.nvmlDeviceGetCudaComputeCapability(handle))
    return GpuState(
        name=nvml.nvmlDeviceGetName(handle),
        driver=_or_none(lambda: nvml.nvmlSystemGetDriverVersion()) or "",
        clock_mhz=_or_none(lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
        clock_max_mhz=_or_none(lambda: float(nvml.nvmlDeviceGetMaxClockInfo(handle, nvml.NVML_CLOCK_SM))),
        persistence=None if persistence is None else bool(persistence),
        power_limit_w=None if limit_mw is None else limit_mw / 1e3,
        compute_capability=".".join(map(str, capability)) if capability else None,
    )


def _topology() -> str | None:
    """Return how GPUs and network cards are linked; None without nvidia-smi."""
    if not shutil.which("nvidia-smi"):
        return None
    done = finished(["nvidia-smi", "topo", "-m"])
    # Colours of the terminal, and a legend of three paragraphs.
    return re.sub(r"\x1b\[\d*m", "", done.stdout).partition("\n\n")[0].strip() or None


def visible_gpu(index: int) -> str:
    """Return the GPU with this index among those that this process may use, as in CUDA_VISIBLE_DEVICES."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",")
    return visible[index] if index < len(visible) and visible[index] else str(index)


def reader(gpu: str, nvml: Any = pynvml) -> Callable[[], GpuReading]:
    """Return a function that reads a GPU; it returns UNKNOWN without a driver or such a GPU.

    NVML stays open until the process ends. A driver that hangs holds up the caller: sample from a separate process.
    gpu: as in CUDA_VISIBLE_DEVICES: an index, the UUID of a GPU (`GPU-...`) or its beginning, or that of a MIG instance
    (`MIG-...`). NVML numbers GPUs by PCI bus; CUDA does with CUDA_DEVICE_ORDER=PCI_BUS_ID, or if all are of one model.
    """
    handle = _find(gpu, nvml)
    if handle is None:
        return lambda: UNKNOWN
    return lambda: GpuReading(
        fraction=_or_none(lambda: nvml.nvmlDeviceGetUtilizationRates(handle).gpu / 100),  # percent
        # Version 2 does not count what the driver reserves for itself, as nvidia-smi does not.
        memory_bytes=_or_none(lambda: nvml.nvmlDeviceGetMemoryInfo(handle, version=nvml.nvmlMemory_v2).used),
        energy_j=_or_none(lambda: nvml.nvmlDeviceGetTotalEnergyConsumption(handle) / 1e3),  # mJ
        clock_mhz=_or_none(lambda: float(nvml.nvmlDeviceGetClockInfo(handle, nvml.NVML_CLOCK_SM))),
    )


def _handles(nvml: Any) -> list[Any]:
    return [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(nvml.nvmlDeviceGetCount())]


def _find(gpu: str, nvml: Any) -> Any:
    """Return the handle of a GPU or MIG instance; None if there is no driver or no such GPU."""
    try:
        nvml.nvmlInit()
        if gpu.isdigit():
            return nvml.nvmlDeviceGetHandleByIndex(int(gpu))
        whole = _handles(nvml) if gpu.startswith("GPU-") else []
        named = [handle for handle in whole if nvml.nvmlDeviceGetUUID(handle).startswith(gpu)]
        return named[0] if named else nvml.nvmlDeviceGetHandleByUUID(gpu)
    except pynvml.NVMLError:
        return None


def _or_none(read: Callable[[], Any]) -> Any:
    """Return the value that `read` returns; None if the GPU does not report it: a MIG instance has no utilisation."""
    try:
        return read()
    except pynvml.NVMLError:
        return None


if __name__ == "__main__":
    print(msgspec.json.encode(query_driver()).decode())
