"""The use of a rank's cores between two moments: counted by the kernel, read outside every timed window."""

import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from train.rank import energy, placement
from train.record.record import CoreUse
from train.record.summary import known_mean

STAT = Path("/proc/stat")
_THREADS = Path("/proc/self/task")
_CLOCKS = Path("/sys/devices/system/cpu")
_BUSY = (0, 1, 2)  # user, nice, system; not idle, iowait, irq, softirq
_STEAL = 7


@dataclass(frozen=True)
class Reading:
    """The counters at one moment."""

    at_s: float
    own_s: float
    busy_s: float
    steal_s: float
    threads_s: Mapping[str, tuple[float, float]]  # by id: CPU time, and time in which it was ready and did not run
    energy: energy.Reading


def read(meter: energy.Meter) -> Reading | None:
    """Return the counters of this process, its cores, and energy; None if the kernel has none."""
    if not STAT.exists():
        return None
    busy_s, steal_s = core_times(STAT.read_text(), placement.usable_cores())
    return Reading(time.perf_counter(), time.process_time(), busy_s, steal_s, thread_times(), meter.read())


def since(begin: Reading | None, meter: energy.Meter) -> CoreUse | None:
    """Return what was counted since a reading with the same meter; None without one."""
    end = read(meter)
    if begin is None or end is None:
        return None
    return CoreUse(
        wall_s=end.at_s - begin.at_s,
        own_s=end.own_s - begin.own_s,
        busy_s=end.busy_s - begin.busy_s,
        steal_s=end.steal_s - begin.steal_s,
        delay_s=delay_s(begin.threads_s, end.threads_s, len(placement.usable_cores())),
        frequency_mhz=frequency_mhz(placement.usable_cores()),
        energy_j=energy.processors_j(begin.energy.processors, end.energy.processors),
        gpu_energy_j=energy.gpu_j(begin.energy.gpu.energy_j, end.energy.gpu.energy_j),
        gpu_clock_mhz=end.energy.gpu.clock_mhz,
    )


def total(uses: Sequence[CoreUse | None]) -> CoreUse | None:
    """Return the sum over several spans; None where one of them was not counted."""
    counted = [use for use in uses if use]
    if not counted or len(counted) < len(uses):
        return None
    return CoreUse(
        wall_s=sum(use.wall_s for use in counted),
        own_s=sum(use.own_s for use in counted),
        busy_s=sum(use.busy_s for use in counted),
        steal_s=sum(use.steal_s for use in counted),
        delay_s=_sum([use.delay_s for use in counted]),
        frequency_mhz=known_mean([use.frequency_mhz for use in counted]),
        energy_j=_sum([use.energy_j for use in counted]),
        gpu_energy_j=_sum([use.gpu_energy_j for use in counted]),
        gpu_clock_mhz=known_mean([use.gpu_clock_mhz for use in counted]),
    )


def _sum(values: Sequence[float | None]) -> float | None:
    """Return the sum; None where one of the values is not known."""
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
        try:
            ran_ns, waited_ns, *_ = (task / "schedstat").read_text().split()
        except (OSError, ValueError):  # it has ended, or the kernel does not count
            continue
        times[task.name] = (int(ran_ns) / 1e9, int(waited_ns) / 1e9)
    return times


def delay_s(
    begin: Mapping[str, tuple[float, float]], end: Mapping[str, tuple[float, float]], cores: int
) -> float | None:
    """Return how long a rank's busiest threads were ready and did not run between two readings, in s; one per core.

    Those compute. Others, as Horovod's, wait for them whatever else the machine does. None without threads.
    """
    spent = [
        (ran_s - begin.get(name, (0.0, 0.0))[0], waited_s - begin.get(name, (0.0, 0.0))[1])
        for name, (ran_s, waited_s) in end.items()
    ]
    return sum(waited_s for _, waited_s in sorted(spent, reverse=True)[:cores]) if spent else None


def frequency_mhz(cores: Collection[int], which: str = "scaling_cur_freq", clocks: Path = _CLOCKS) -> float | None:
    """Return the mean clock of these cores, or by `which` its highest (cpuinfo_max_freq); None without cpufreq."""
    clocks_mhz = []
    for core in cores:
        try:
            clocks_mhz.append(int((clocks / f"cpu{core}/cpufreq/{which}").read_text()) / 1e3)
        except (OSError, ValueError):
            return None
    return sum(clocks_mhz) / len(clocks_mhz) if clocks_mhz else None
