"""What the processors of a host and the GPU of a rank have taken so far, as they count it themselves: RAPL and NVML.

RAPL counts the packages of Intel's and AMD's processors, with all that runs on them; memory and power supply are not in
it. Its counters begin anew after some hundred kilojoules, so that a span in which one does so twice is too small; that
takes longer than any window of some minutes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from train.rank.gpus import NOT_COUNTED, GpuCount

_POWER = Path("/sys/class/powercap")
# A package; not its parts (intel-rapl:0:0), which it contains, nor the same one by MMIO.
_PACKAGE = re.compile(r"(intel|amd)-rapl:\d+")


@dataclass(frozen=True)
class Counter:
    """A counter of energy."""

    joules: float
    range_j: float | None  # it begins anew at 0 after this; None: not known


@dataclass(frozen=True)
class Reading:
    """The counters at one moment."""

    processors: tuple[Counter, ...] = ()  # of each package of the host; empty where they cannot be read
    gpu: GpuCount = NOT_COUNTED


class Meter:
    """Reads the counters that a rank is to read."""

    def __init__(self, processors: bool = False, gpu: Callable[[], GpuCount] = lambda: NOT_COUNTED) -> None:
        """Nothing is read yet.

        processors: of the host: one rank of it is enough. gpu: reads the rank's GPU, as `gpus.counter` returns it.
        """
        self._processors, self._gpu = processors, gpu

    def read(self) -> Reading:
        """The counters now. Reading them takes well under a millisecond."""
        return Reading(tuple(packages(_POWER)) if self._processors else (), self._gpu())


def packages(power: Path = _POWER) -> list[Counter]:
    """The counter of each package; empty where there is none, or this user may not read one."""
    try:
        found = sorted(path for path in power.iterdir() if _PACKAGE.fullmatch(path.name))
        return [Counter(int((path / "energy_uj").read_text()) / 1e6, _range_j(path)) for path in found]
    except (OSError, ValueError):
        return []


def unknown(power: Path = _POWER) -> str | None:
    """Why the energy of this host's processors cannot be read; None where it can."""
    if packages(power):
        return None
    there = sorted(path for path in power.iterdir() if _PACKAGE.fullmatch(path.name)) if power.is_dir() else []
    if not there:
        return f"no RAPL counter in {power}: a virtual machine, or a processor or kernel without one"
    try:
        for path in there:
            int((path / "energy_uj").read_text())
    except PermissionError:
        return f"only root may read {path / 'energy_uj'}"
    except (OSError, ValueError) as error:
        return f"{path / 'energy_uj'}: {error}"
    return None


def processors_j(begin: Sequence[Counter], end: Sequence[Counter]) -> float | None:
    """The energy of all packages between two readings, in J; None without counters, or where one is not known."""
    spent = [_between(b, e) for b, e in zip(begin, end, strict=False)]
    known = [joules for joules in spent if joules is not None]
    return sum(known) if known and len(known) == len(begin) == len(end) else None


def gpu_j(begin: float | None, end: float | None) -> float | None:
    """The energy of a GPU between two readings, in J; None where it does not count it, or has begun anew."""
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
