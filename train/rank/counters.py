"""Counters, read outside every timed window: the kernel's of a rank's cores, and the energy of processors and GPUs.

RAPL counts the energy of the packages of Intel's and AMD's processors, with all programs on them, without memory and
power supply. Its counters restart after some hundred kilojoules. If one restarts twice in a span, the result is too
small, but that takes longer than windows of some minutes. NVML counts the energy of GPUs.
"""

import os
import re
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from common import affinity
from record.record_summary import known_mean
from record.schema import CoreUse
from train.rank import gpus, placement

POWER = Path("/sys/class/powercap")
# A package; not its parts (intel-rapl:0:0), which it contains, nor the same one by MMIO.
_PACKAGE = re.compile(r"(intel|amd)-rapl:\d+")
STAT = Path("/proc/stat")
_THREADS = Path("/proc/self/task")
_BUSY = (0, 1, 2)  # user, nice, system; not idle, iowait, irq, softirq
_STEAL = 7


@dataclass(frozen=True)
class Counter:
    """A counter of energy."""

    joules: float
    range_j: float | None  # it restarts at 0 after this; None: unknown


@dataclass(frozen=True)
class Meter:
    """The energy counters that a rank reads: this takes well under a millisecond."""

    processors: bool = False  # those of the host, which one of its ranks reads
    gpu: Callable[[], gpus.GpuReading] | None = None  # reads the rank's GPU


def energy_counters(power: Path = POWER) -> list[Counter]:
    """Return the counter of each package; empty if there is none, or this user may not read one."""
    try:
        return [
            Counter(int((path / "energy_uj").read_text()) / 1e6, _range_j(path)) for path in _package_folders(power)
        ]
    except (OSError, ValueError):
        return []


def _package_folders(power: Path) -> list[Path]:
    return sorted(path for path in power.iterdir() if _PACKAGE.fullmatch(path.name))


def why_no_energy(power: Path = POWER) -> str | None:
    """Return why the energy of this host's processors cannot be read; None if it can."""
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
    return _sum(used) if used and len(begin) == len(end) else None


def gpu_j(begin: float | None, end: float | None) -> float | None:
    """Return the energy of a GPU between two readings, in J; None if it has no counter, or one that has restarted."""
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


ThreadTimes = Mapping[str, tuple[float, float]]  # by id: CPU time, and time in which it was ready but did not run


@dataclass(frozen=True)
class CounterReading:
    """The counters at one moment."""

    at_s: float
    own_s: float
    busy_s: float
    steal_s: float
    threads_s: ThreadTimes
    processors: Sequence[Counter]  # of each package of the host; empty if they cannot be read
    gpu: gpus.GpuReading


def read_counters(meter: Meter) -> CounterReading | None:
    """Return the counters of this process, its cores, and energy; None if the kernel has none."""
    if not STAT.exists():
        return None
    busy_s, steal_s = core_times(STAT.read_text(), affinity.usable_cores())
    return CounterReading(
        at_s=time.perf_counter(),
        own_s=time.process_time(),
        busy_s=busy_s,
        steal_s=steal_s,
        threads_s=thread_times(),
        processors=energy_counters(POWER) if meter.processors else [],
        gpu=meter.gpu() if meter.gpu else gpus.UNKNOWN,
    )


def counted_since(begin: CounterReading | None, meter: Meter) -> CoreUse | None:
    """Return the difference to an earlier reading with the same meter; None without one."""
    end = read_counters(meter)
    if begin is None or end is None:
        return None
    return CoreUse(
        wall_s=end.at_s - begin.at_s,
        own_s=end.own_s - begin.own_s,
        busy_s=end.busy_s - begin.busy_s,
        steal_s=end.steal_s - begin.steal_s,
        delay_s=delay_s(begin.threads_s, end.threads_s, len(affinity.usable_cores())),
        frequency_mhz=frequency_mhz(affinity.usable_cores()),
        energy_j=processors_j(begin.processors, end.processors),
        gpu_energy_j=gpu_j(begin.gpu.energy_j, end.gpu.energy_j),
        gpu_clock_mhz=end.gpu.clock_mhz,
        moved_to=placement.moved_to(),
    )


def total(usages: Sequence[CoreUse | None]) -> CoreUse | None:
    """Return the sum over several spans, and the mean of clocks; None if one of them was not counted."""
    counted = [usage for usage in usages if usage]
    if not counted or len(counted) < len(usages):
        return None
    moved = sorted({cpu for usage in counted for cpu in usage.moved_to or ()})
    sums: dict[str, Any] = {"moved_to": moved if all(usage.moved_to is not None for usage in counted) else None}
    for name in (item.name for item in fields(CoreUse) if item.name not in sums):
        values = [getattr(usage, name) for usage in counted]
        sums[name] = known_mean(values) if name.endswith("_mhz") else _sum(values)
    return CoreUse(**sums)


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum; None if one of the values is unknown."""
    reported = [value for value in values if value is not None]
    return sum(reported) if len(reported) == len(values) else None


def core_times(stat: str, cores: Collection[int]) -> tuple[float, float]:
    """Return the seconds that these cores worked for processes, and that a hypervisor withheld them, from /proc/stat.

    proc(5): cpuN, then user, nice, system, idle, iowait, irq, softirq, steal, ... in ticks.
    """
    busy = steal = 0
    for name, *numbers in (line.split() for line in stat.splitlines() if re.match(r"cpu\d", line)):
        if int(name[3:]) in cores:
            busy += sum(int(numbers[column]) for column in _BUSY)
            steal += int(numbers[_STEAL])
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return busy * tick_s, steal * tick_s


def steal(cores: Collection[int]) -> tuple[float, float] | None:
    """Return the time now, and for how long a hypervisor withheld these cores, in s; None if not counted."""
    return (time.perf_counter(), core_times(STAT.read_text(), cores)[1]) if STAT.exists() else None


def steal_fraction(begin: tuple[float, float] | None, end: tuple[float, float] | None, cores: int) -> float | None:
    """Return the share of the time of so many cores that a hypervisor withheld between two readings of `steal`."""
    if begin is None or end is None or end[0] <= begin[0]:
        return None
    return max(0.0, end[1] - begin[1]) / (cores * (end[0] - begin[0]))


def thread_times(tasks: Path = _THREADS) -> dict[str, tuple[float, float]]:
    """Return the CPU time of each thread of this process and the time that it waited for a core, in s, by its id.

    Linux, Documentation/scheduler/sched-stats.rst: nanoseconds on the CPU, then on the run queue. Empty if the
    kernel does not count.
    """
    times = {}
    for task in tasks.iterdir() if tasks.exists() else ():
        with suppress(OSError, ValueError):  # it has ended, or the kernel does not count
            ran_ns, waited_ns, *_ = (task / "schedstat").read_text().split()
            times[task.name] = (int(ran_ns) / 1e9, int(waited_ns) / 1e9)
    return times


def delay_s(begin: ThreadTimes, end: ThreadTimes, cores: int) -> float | None:
    """Return how long a rank's busiest threads, one per core, were ready but did not run between two readings, in s.

    Those compute. Others, such as Horovod's, only wait for them. None without threads.
    """
    spent = [
        (ran_s - begin.get(name, (0.0, 0.0))[0], waited_s - begin.get(name, (0.0, 0.0))[1])
        for name, (ran_s, waited_s) in end.items()
    ]
    return sum(waited_s for _, waited_s in sorted(spent, reverse=True)[:cores]) if spent else None


def frequency_mhz(cores: Collection[int], kind: str = "scaling_cur_freq", clocks: Path = affinity.CPUS) -> float | None:
    """Return the mean clock of these cores, or of another `kind`, as cpuinfo_max_freq; None without cpufreq."""
    try:
        clocks_mhz = [int((clocks / f"cpu{core}/cpufreq/{kind}").read_text()) / 1e3 for core in cores]
    except (OSError, ValueError):
        return None
    return sum(clocks_mhz) / len(clocks_mhz) if clocks_mhz else None
