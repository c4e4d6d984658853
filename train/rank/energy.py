"""The energy of the processors of a host and the GPU of a rank so far, as they count it themselves: RAPL and NVML.

RAPL counts the packages of Intel's and AMD's processors, with all that runs on them; memory and power supply are not in
it. Its counters restart after some hundred kilojoules: a span in which one does so twice is too small, but that takes
longer than any window of some minutes.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from train.rank.gpus import NOT_COUNTED, GpuCount

POWER = Path("/sys/class/powercap")
# A package; not its parts (intel-rapl:0:0), which it contains, nor the same one by MMIO.
_PACKAGE = re.compile(r"(intel|amd)-rapl:\d+")


@dataclass(frozen=True)
class Counter:
    """A counter of energy."""

    joules: float
    range_j: float | None  # it restarts at 0 after this; None: not known


@dataclass(frozen=True)
class Reading:
    """The counters at one moment."""

    processors: tuple[Counter, ...] = ()  # of each package of the host; empty if they cannot be read
    gpu: GpuCount = NOT_COUNTED


class Meter:
    """Reads the counters that a rank is to read."""

    def __init__(self, processors: bool = False, gpu: Callable[[], GpuCount] | None = None) -> None:
        """Read nothing yet.

        processors: of the host: one rank of it is enough. gpu: reads the rank's GPU, as `gpus.count_reader` returns it.
        """
        self._processors, self._gpu = processors, gpu or (lambda: NOT_COUNTED)

    def read(self) -> Reading:
        """Return the counters now. Reading them takes well under a millisecond."""
        return Reading(tuple(packages(POWER)) if self._processors else (), self._gpu())


def packages(power: Path = POWER) -> list[Counter]:
    """Return the counter of each package; empty if there is none, or this user may not read one."""
    try:
        return [
            Counter(int((path / "energy_uj").read_text()) / 1e6, _range_j(path)) for path in _package_folders(power)
        ]
    except (OSError, ValueError):
        return []


def _package_folders(power: Path) -> list[Path]:
    return sorted(path for path in power.iterdir() if _PACKAGE.fullmatch(path.name))


def why_unreadable(power: Path = POWER) -> str | None:
    """Return why the energy of this host's processors cannot be read; None if it can."""
    if packages(power):
        return None
    folders = _package_folders(power) if power.is_dir() else []
    if not folders:
        return f"no RAPL counter in {power}: a virtual machine, or a processor or kernel without one"
    try:
        for path in folders:
            int((path / "energy_uj").read_text())
    except PermissionError:
        return f"only root may read {path / 'energy_uj'}"
    except (OSError, ValueError) as error:
        return f"{path / 'energy_uj'}: {error}"
    return None


def processors_j(begin: Sequence[Counter], end: Sequence[Counter]) -> float | None:
    """Return the energy of all packages between two readings, in J; None without counters, or if one is unknown."""
    used = [_between(b, e) for b, e in zip(begin, end, strict=False)]
    counted = [joules for joules in used if joules is not None]
    return sum(counted) if counted and len(counted) == len(begin) == len(end) else None


def gpu_j(begin: float | None, end: float | None) -> float | None:
    """Return the energy of a GPU between two readings, in J; None if it does not count it, or has restarted."""
    return None if begin is None or end is None or end < begin else end - begin


def _between(begin: Counter, end: Counter) -> float | None:
    if end.joules >= begin.joules:
        return end.joules - begin.joules
    return None if end.range_j is None else end.joules + end.range_j - begin.joules


def _range_j(package: Path) -> float | None:
    try:
        return int((package / "max_energy_range_uj").read_text()) / 1e6
    except (OSError, ValueError):
        return None
