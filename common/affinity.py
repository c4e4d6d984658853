"""The CPUs that a process may use: a cpuset, a batch system, a container or a CPU quota may leave it some of them.

The kernel counts hardware threads. Two threads of one core share its arithmetic units, so a rank has whole cores.
Kernel documentation of quotas: admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst.
"""

import functools
import os
import socket
import zlib
from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")
_ROUNDING = 0.01  # of quotas, which are whole microseconds
_CGROUP, _MOUNTS = Path("/proc/self/cgroup"), Path("/proc/self/mountinfo")


def usable_cores() -> list[int]:
    """Return the CPUs, as the kernel numbers them, that this process may run on, ascending; after `use`, its cores.

    They are no more than its CPU quota is worth, but at least one: whole cores first, beginning at one that depends on
    the host's name, so that containers of one machine do not all take the same.
    """
    cpus, quota = sorted(os.sched_getaffinity(0)), cpu_quota()
    if quota is None:
        return cpus
    cores = whole_cores(cpus)
    begin = zlib.crc32(socket.gethostname().encode()) % len(cores)
    ordered = dict.fromkeys([*cores[begin:], *cores[:begin], *cpus])
    return sorted([*ordered][: max(1, int(quota.cores + _ROUNDING))])


def _siblings(cpu: int) -> str:
    """Return the hardware threads of the core of a CPU as the kernel lists them, as 0,64; alone if it does not."""
    try:
        return (CPUS / f"cpu{cpu}/topology/thread_siblings_list").read_text().strip()
    except OSError:
        return str(cpu)


def whole_cores(cpus: Iterable[int]) -> list[int]:
    """Return one hardware thread, the first, of each core that has any among these CPUs, ascending."""
    first: dict[str, int] = {}
    for cpu in sorted(cpus):
        first.setdefault(_siblings(cpu), cpu)
    return [*first.values()]


def threads_per_core(cpus: Iterable[int]) -> int:
    """Return how many hardware threads the cores of these CPUs have, the most of any."""
    ranges = ([part.split("-") for part in _siblings(cpu).split(",")] for cpu in cpus)
    return max((sum(int(last[-1]) - int(last[0]) + 1 for last in parts) for parts in ranges), default=1)


def bind(cpus: Iterable[int], process: int = 0) -> None:
    """Bind a process, or a thread, to these CPUs; 0: the calling thread. Raises OSError, which says so."""
    cores = sorted(cpus)
    try:
        os.sched_setaffinity(process, cores)
    except ProcessLookupError:
        raise
    except OSError as error:
        names = ", ".join(map(str, cores))
        raise OSError(
            error.errno, f"cannot bind a process to cores {names} (sched_setaffinity): {error.strerror}"
        ) from error


def use(smt: bool) -> None:
    """Bind this process, and what it starts from now on, to one hardware thread of each of its cores; smt: to all."""
    if not smt:
        bind(whole_cores(usable_cores()))


@dataclass(frozen=True)
class Hierarchy:
    """A hierarchy of control groups with the cpu controller, of version 1 or 2."""

    version: int
    top: Path
    own: Path  # the folder of this process's group


def hierarchies(mountinfo: str, cgroup: str) -> list[Hierarchy]:
    """Return the hierarchies with the cpu controller, from the texts of mountinfo and cgroup in /proc/self."""
    paths = {names: path for _, names, path in (line.split(":", 2) for line in cgroup.splitlines())}
    with_cpu = []
    for line in mountinfo.splitlines():
        before, _, after = line.partition(" - ")
        root, mount = before.split()[3:5]
        kind, _, options = after.split()[:3]
        if kind == "cgroup2" or (kind == "cgroup" and "cpu" in options.split(",")):
            names = "" if kind == "cgroup2" else next((names for names in paths if "cpu" in names.split(",")), "")
            path = paths.get(names, "/")
            inside = path.removeprefix(root.rstrip("/")) if path.startswith(root) else ""
            with_cpu.append(Hierarchy(2 if kind == "cgroup2" else 1, Path(mount), Path(mount, inside.strip("/"))))
    return with_cpu


def own_hierarchies() -> list[Hierarchy]:
    """Return the hierarchies of this process; empty on a system without control groups."""
    return hierarchies(_MOUNTS.read_text(), _CGROUP.read_text()) if _CGROUP.exists() and _MOUNTS.exists() else []


@dataclass(frozen=True)
class CpuQuota:
    """The smallest CPU quota of the control groups around a process."""

    cores: float  # that it is worth
    group: Path  # which has it


@functools.cache  # as this process began: later the launcher may put it into a group with a quota of its node
def cpu_quota() -> CpuQuota | None:
    """Return the CPU quota of this process; None if it has none, or the system has no control groups."""
    quotas = [
        CpuQuota(cores, group)
        for hierarchy in own_hierarchies()
        for group in (hierarchy.own, *hierarchy.own.parents)
        if group.is_relative_to(hierarchy.top)
        for cores in _quotas(hierarchy.version, group)
    ]
    return min(quotas, key=lambda quota: quota.cores, default=None)


def _quotas(version: int, group: Path) -> Iterator[float]:
    """Yield the quota that a group has itself, in cores, if it has one."""
    names = ("cpu.max",) if version == 2 else ("cpu.cfs_quota_us", "cpu.cfs_period_us")
    with suppress(OSError, ValueError):  # none at the top, or "max"
        quota_us, period_us = map(int, " ".join((group / name).read_text() for name in names).split())
        if quota_us > 0:
            yield quota_us / period_us


def throttling() -> tuple[int, float]:
    """Return how often and for how long, in s, the kernel has stopped processes because their quota was used up."""
    with suppress(OSError, KeyError):  # no quota, or a kernel that does not count
        return cpu_statistics((quota.group / "cpu.stat").read_text())[1:] if (quota := cpu_quota()) else (0, 0.0)
    return 0, 0.0


def throttling_note(before: tuple[int, float]) -> str | None:
    """Return a note on the processes that were stopped since `before`, from `throttling`; None if none were."""
    (times, seconds), quota = throttling(), cpu_quota()
    if quota is None or times == before[0]:
        return None
    return (
        f"the CPU quota of {quota.cores:g} cores stopped processes {times - before[0]} times, for "
        f"{seconds - before[1]:.1f} s: what was measured is slower; take fewer ranks or threads, or a larger quota"
    )


def cpu_statistics(text: str) -> tuple[int, int, float]:
    """Return periods, throttled periods and seconds throttled, from a group's cpu.stat of either version."""
    values = {key: int(value) for key, value in (line.split() for line in text.splitlines())}
    throttled_s = values["throttled_usec"] / 1e6 if "throttled_usec" in values else values["throttled_time"] / 1e9
    return values["nr_periods"], values["nr_throttled"], throttled_s
