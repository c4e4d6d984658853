"""Reading GPUs through NVML: without a driver through the real library, else through a fake of pynvml.

The fake answers as NVML's documentation says, with the errors of pynvml.
"""

import tomllib
from ctypes.util import find_library
from types import SimpleNamespace

import pynvml
import pytest

from record.schema import GpuState
from tests.helpers import ROOT
from train.rank import gpus
from train.rank.gpus import UNKNOWN, GpuReading

FIRST, SECOND = "GPU-11111111-aaaa", "GPU-22222222-bbbb"
INSTANCE = "MIG-33333333-cccc"


SETTINGS = {("PersistenceMode",): 1, ("ClockInfo", "SM"): 1189, ("MaxClockInfo", "SM"): 1480}
# Results of nvmlDeviceGet... for two GPUs and a MIG instance, which reports memory and no utilisation: in mW, percent,
# mJ since the driver was loaded. The first GPU is older than Volta and counts no energy.
DEVICES = {
    FIRST: {
        ("UUID",): FIRST,
        ("Name",): "Tesla P100-PCIE-16GB",
        ("EnforcedPowerLimit",): 250_000,
        ("CudaComputeCapability",): (6, 0),
        ("UtilizationRates",): SimpleNamespace(gpu=87, memory=55),
        ("MemoryInfo", "v2"): SimpleNamespace(used=2**30, reserved=2**29),
        **SETTINGS,
    },
    SECOND: {
        ("UUID",): SECOND,
        ("Name",): "NVIDIA A100-SXM4-40GB",
        ("UtilizationRates",): SimpleNamespace(gpu=0, memory=55),
        ("MemoryInfo", "v2"): SimpleNamespace(used=2**20, reserved=2**29),
        ("TotalEnergyConsumption",): 123_456,
        **SETTINGS,
    },
    INSTANCE: {("MemoryInfo", "v2"): SimpleNamespace(used=2**21, reserved=2**29), **SETTINGS},
}
ANSWERS = {
    ("SystemGetDriverVersion",): "550.54.15",
    ("DeviceGetCount",): 2,
    ("DeviceGetHandleByIndex", 0): FIRST,
    ("DeviceGetHandleByIndex", 1): SECOND,
    **{("DeviceGetHandleByUUID", device): device for device in DEVICES},
    **{(f"DeviceGet{key[0]}", device, *key[1:]): DEVICES[device][key] for device in DEVICES for key in DEVICES[device]},
}


class FakeNvml:
    """Answers the requests of ANSWERS, and no others."""

    nvmlMemory_v2, NVML_CLOCK_SM = "v2", "SM"
    open = 0

    def nvmlInit(self):
        self.open += 1

    def nvmlShutdown(self):
        self.open -= 1

    def __getattr__(self, name):
        def answer(*arguments, **options):
            if (request := (name.removeprefix("nvml"), *arguments, *options.values())) in ANSWERS:
                return ANSWERS[request]
            raise pynvml.NVMLError(pynvml.NVML_ERROR_NOT_SUPPORTED)

        return answer


@pytest.mark.skipif(bool(find_library("nvidia-ml")), reason="this machine has NVIDIA's driver")
def test_without_a_driver_there_are_no_gpus():
    assert gpus.names() == []
    assert gpus.reader("0")() == UNKNOWN


def test_the_settings_of_gpus_are_read_and_the_library_is_closed():
    nvml = FakeNvml()
    first, second = gpus.query_driver(nvml).states
    assert first == GpuState("Tesla P100-PCIE-16GB", "550.54.15", 1189.0, 1480.0, True, 250.0, "6.0")
    assert (second.name, second.power_limit_w, second.clock_mhz) == ("NVIDIA A100-SXM4-40GB", None, 1189.0)
    assert second.compute_capability is None
    assert nvml.open == 0


NO_CODE = "compute capability {}: no code for it in TensorFlow 2.21 (from 6.0 on), "
OLD_DRIVER = "driver 470.82.01: TensorFlow 2.21, cuDNN and NCCL of CUDA 12 need 525.60 or newer"


@pytest.mark.parametrize(
    ("capability", "driver", "problems"),
    [
        ("6.0", "525.60.13", []),  # P100
        ("10.0", "580.65", []),
        (None, "", []),  # nothing is alleged of what is not known
        ("5.2", "550.54", [NO_CODE.format("5.2") + "NCCL 2.32 (from 6.0 on)"]),
        ("3.7", "470.82.01", [OLD_DRIVER, NO_CODE.format("3.7") + "cuDNN 9.10 (from 5.0 on), NCCL 2.32 (from 6.0 on)"]),
    ],
)
def test_the_libraries_without_code_for_a_gpu_and_a_driver_that_is_too_old_are_named(capability, driver, problems):
    assert gpus.problems(GpuState("GPU", driver, None, None, None, None, capability)) == problems


def test_the_least_capabilities_are_those_of_the_versions_that_are_locked():
    """Read from the code in the wheels of these versions; another version needs another look (docs/clusters.md)."""
    packages = tomllib.loads((ROOT / "uv.lock").read_text())["package"]
    names = {"TensorFlow": "tensorflow", "cuDNN": "nvidia-cudnn-cu12", "NCCL": "nvidia-nccl-cu12"}
    locked = {package["name"]: package["version"] for package in packages}
    for name, version in (entry.split() for entry in gpus._LEAST_CAPABILITY):
        assert locked[names[name]].startswith(f"{version}.")


@pytest.fixture
def driver(monkeypatch, tmp_path):
    """Replace NVML, for new processes, by a module whose `nvmlInit` runs this statement."""

    def write(init: str) -> None:
        names = "nvmlDeviceGetHandleByIndex = lambda index: index\nnvmlDeviceGetName = lambda handle: f'GPU {handle}'\n"
        rest = "class NVMLError(Exception): pass\ndef nvmlShutdown(): pass\ndef nvmlDeviceGetCount(): return 2\n"
        unknown = "def __getattr__(name): raise NVMLError(name) if 'NVML' in name.upper() else AttributeError(name)\n"
        (tmp_path / "pynvml.py").write_text(f"import os, time\n{rest}{names}{unknown}def nvmlInit(): {init}\n")

    monkeypatch.setattr(gpus, "LIBRARY", "libc.so.6")  # a library of this machine
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    return write


@pytest.mark.slow
def test_another_process_asks_the_driver_which_may_crash_it_or_hang(driver, capfd):
    driver("pass")
    assert [state.name for state in gpus.query(timeout_s=240).states] == ["GPU 0", "GPU 1"]
    driver("os.abort()")
    assert gpus.names() == []
    driver("print('a notice of a library')")
    assert gpus.names() == []
    assert "GPUs are not named" in capfd.readouterr().err
    driver("time.sleep(600)")
    assert gpus.query(timeout_s=0.5).states == []
    assert "NVIDIA's driver did not answer within 0.5 s" in capfd.readouterr().err


P100, A100 = GpuReading(0.87, 2**30, None, 1189.0), GpuReading(0.0, 2**20, 123.456, 1189.0)


@pytest.mark.parametrize(
    ("gpu", "expected"),
    [
        ("0", P100),
        ("1", A100),
        (FIRST, P100),
        ("GPU-2222", A100),
        (INSTANCE, GpuReading(None, 2**21, None, 1189.0)),
        *((absent, UNKNOWN) for absent in ("2", "GPU-9999", "MIG-9999", "NoDevFiles")),
    ],
)
def test_a_gpu_is_found_by_index_and_uuid_and_read(gpu, expected):
    assert gpus.reader(gpu, FakeNvml())() == expected
