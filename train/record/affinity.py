"""The CPUs that a process may use. A cpuset, a batch system or a container may leave it fewer than the machine has.

The kernel counts hardware threads. Two threads of one core share its arithmetic units, so a rank has whole cores.
"""

import os
from collections.abc import Iterable
from pathlib import Path

CPUS = Path("/sys/devices/system/cpu")


def usable_cores() -> list[int]:
    """Return the CPUs, as the kernel numbers them, that this process may run on, ascending; after `use`, its cores."""
    return sorted(os.sched_getaffinity(0))


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


def use(smt: bool) -> None:
    """Bind this process, and what it starts from now on, to one hardware thread of each of its cores; smt: to all."""
    if not smt:
        os.sched_setaffinity(0, whole_cores(usable_cores()))
