"""The cores that a process may use. A cpuset, a batch system or a container may leave it fewer than the machine has."""

import os


def usable_cores() -> list[int]:
    """Return the cores that this process may run on, ascending."""
    return sorted(os.sched_getaffinity(0))
