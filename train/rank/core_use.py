"""What the cores of a rank did between two moments: counted by the kernel, read outside every timed window."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from train.rank import placement
from train.record.record import CoreUse

_STAT = Path("/proc/stat")
_THREADS = Path("/proc/self/task")
_CLOCKS = Path("/sys/devices/system/cpu")
_POWER = Path("/sys/class/powercap")
_BUSY = (0, 1, 2)  # user, nice, system; not idle, iowait, irq, softirq
_STEAL = 7
# A package of Intel's or AMD's RAPL; not its parts (intel-rapl:0:0), which it contains, nor the same one by MMIO.
_PACKAGE = re.compile(r"(intel|amd)-rapl:\d+")


@dataclass(frozen=True)
class Reading:
    """The counters at one moment."""

    at_s: float
    own_s: float
    busy_s: float
    steal_s: float
    threads_s: Mapping[str, tuple[float, float]]  # by id: CPU time, and time in which it was ready and did not run
    energy_j: tuple[float, ...]  # of each package of the host


def read(energy: bool = False) -> Reading | None:
    """The counters of this process and of the cores that it may run on; None where the kernel has none.

    energy: also the host's, where this user may read it.
    """
    if not _STAT.exists():
        return None
    busy_s, steal_s = core_times(_STAT.read_text(), placement.usable_cores())
    joules = tuple(_energies(_POWER)) if energy else ()
    return Reading(time.perf_counter(), time.process_time(), busy_s, steal_s, threads(), joules)


def since(begin: Reading | None) -> CoreUse | None:
    """What was counted since a reading; None without one."""
    end = read(energy=bool(begin and begin.energy_j))
    if begin is None or end is None:
        return None
    return CoreUse(
        wall_s=end.at_s - begin.at_s,
        own_s=end.own_s - begin.own_s,
        busy_s=end.busy_s - begin.busy_s,
        steal_s=end.steal_s - begin.steal_s,
        delay_s=delay_s(begin.threads_s, end.threads_s, len(placement.usable_cores())),
        frequency_mhz=frequency_mhz(placement.usable_cores()),
        energy_j=_used(begin.energy_j, end.energy_j),
    )


def together(uses: Sequence[CoreUse | None]) -> CoreUse | None:
    """The sum over several spans; None where one of them was not counted."""
    known = [use for use in uses if use]
    if not known or len(known) < len(uses):
        return None
    energies = [use.energy_j for use in known if use.energy_j is not None]
    delays = [use.delay_s for use in known if use.delay_s is not None]
    clocks = [use.frequency_mhz for use in known if use.frequency_mhz is not None]
    return CoreUse(
        wall_s=sum(use.wall_s for use in known),
        own_s=sum(use.own_s for use in known),
        busy_s=sum(use.busy_s for use in known),
        steal_s=sum(use.steal_s for use in known),
        delay_s=sum(delays) if len(delays) == len(known) else None,
        frequency_mhz=sum(clocks) / len(clocks) if clocks else None,
        energy_j=sum(energies) if len(energies) == len(known) else None,
    )


def core_times(stat: str, cores: Collection[int]) -> tuple[float, float]:
    """Seconds that these cores worked for processes, and that a hypervisor withheld them, from the text of /proc/stat.

    proc(5): cpuN, then user, nice, system, idle, iowait, irq, softirq, steal, ... in ticks.
    """
    busy = steal = 0
    for name, *numbers in (line.split() for line in stat.splitlines() if re.match(r"cpu\d", line)):
        if int(name[3:]) in cores:
            busy += sum(int(numbers[place]) for place in _BUSY)
            steal += int(numbers[_STEAL])
    tick_s = 1 / os.sysconf("SC_CLK_TCK")
    return busy * tick_s, steal * tick_s


def threads(tasks: Path = _THREADS) -> dict[str, tuple[float, float]]:
    """Of each thread of this process its CPU time and the time in which it waited for a core, in s, by its id.

    Linux, Documentation/scheduler/sched-stats.rst: nanoseconds on the CPU, then on the run queue. Empty where the
    kernel does not count.
    """
    found = {}
    for task in tasks.iterdir() if tasks.exists() else ():
        try:
            ran_ns, waited_ns, *_ = (task / "schedstat").read_text().split()
        except (OSError, ValueError):  # it has ended, or the kernel does not count
            continue
        found[task.name] = (int(ran_ns) / 1e9, int(waited_ns) / 1e9)
    return found


def delay_s(
    begin: Mapping[str, tuple[float, float]], end: Mapping[str, tuple[float, float]], cores: int
) -> float | None:
    """How long the threads that ran most between two readings, as many as cores, were ready and did not run, in s.

    Those compute. Others, as Horovod's, wait for them whatever else the machine does. None without threads.
    """
    spent = [
        (ran_s - begin.get(name, (0.0, 0.0))[0], waited_s - begin.get(name, (0.0, 0.0))[1])
        for name, (ran_s, waited_s) in end.items()
    ]
    return sum(waited_s for _, waited_s in sorted(spent, reverse=True)[:cores]) if spent else None


def frequency_mhz(cores: Collection[int], which: str = "scaling_cur_freq", clocks: Path = _CLOCKS) -> float | None:
    """The mean clock of these cores, or by `which` its highest (cpuinfo_max_freq); None where cpufreq does not say."""
    found = []
    for core in cores:
        try:
            found.append(int((clocks / f"cpu{core}/cpufreq/{which}").read_text()) / 1e3)
        except (OSError, ValueError):
            return None
    return sum(found) / len(found) if found else None


def _energies(power: Path) -> list[float]:
    """The energy counters of the packages, in J; empty where there are none, or only root may read them."""
    try:
        packages = sorted(path for path in power.iterdir() if _PACKAGE.fullmatch(path.name))
        return [int((path / "energy_uj").read_text()) / 1e6 for path in packages]
    except (OSError, ValueError):
        return []


def _used(begin: Sequence[float], end: Sequence[float]) -> float | None:
    """The energy between two readings, in J; None without counters, or where one began anew at 0."""
    if not begin or len(begin) != len(end) or any(b > e for b, e in zip(begin, end, strict=True)):
        return None
    return sum(end) - sum(begin)
