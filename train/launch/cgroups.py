"""CPU quotas for the nodes of a job, by Linux control groups: whether they are available here, and setting them.

Root uses the kernel's own hierarchy, version 1 or 2; other users a scope that systemd-run makes and delegates to them
(version 2 only). The processes are moved from outside, so it works with containers too.
Kernel documentation: admin-guide/cgroup-v2.rst, scheduler/sched-bwc.rst.
"""

import functools
import math
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from common import affinity
from record.schema import NodeQuota

_MIN_QUOTA_US = 4_000  # the kernel allows 1,000; with shorter slices most of the time is spent on switching
_MIN_PERIOD_US = 20_000  # with the kernel's default, 100,000, a short step would wait too long
_MAX_PERIOD_US = 1_000_000
_PERIOD_STEP = 0.02  # how much longer the period of each node is than that of the one before: so none stay in phase
_WITHIN_S = 60.0  # for systemd to make a scope, or the kernel to release a group: longer on busy cores
_SCOPE = ("systemd-run", "--user", "--scope", "--quiet", "--collect", "--property=Delegate=yes", "--")
_SPINS = 1_000_000  # of an empty loop: some hundredths of a second


@dataclass(frozen=True)
class QuotaMethod:
    """How quotas are set on this machine."""

    version: int  # of the control groups
    parent: Path | None  # the folder to make groups in; None: the scope that `prefix` starts the job in
    prefix: tuple[str, ...] = ()  # before the command of each job

    @property
    def text(self) -> str:
        """Return the method as text, for records."""
        return f"cgroup v{self.version}, " + ("cores kept awake" if self.keeps_awake else "systemd scope")

    @property
    def keeps_awake(self) -> bool:
        """Return whether `put_behind` is possible: a user may not move processes into a scope of systemd."""
        return self.parent is not None


def per_node(cores: int, largest_nodes: int, fraction: float) -> float:
    """Return the CPU time of each node, in cores: `fraction` of its share of the machine, the same at every point.

    If there are more nodes than cores, the share is that of the core with the most nodes. 2 cores, 8 nodes, 0.8: 0.2.
    """
    share = cores // largest_nodes or 1 / math.ceil(largest_nodes / cores)
    return round(fraction * share, 4)


def period_us(cpus: float, node: int) -> int:
    """Return the period of a node's quota in microseconds: short, but with enough time to compute in it.

    No two nodes have the same period. With equal periods, nodes on different cores would always compute at the same
    moments, or never. If they share memory or caches, these two cases were measured to differ in speed.
    """
    shortest = max(_MIN_PERIOD_US, math.ceil(_MIN_QUOTA_US / cpus))
    return min(_MAX_PERIOD_US, round(shortest * (1 + _PERIOD_STEP * node)))


def settings(version: int, cpus: float | None, node: int = 0) -> dict[str, str]:
    """Return file name -> text to write, for the files of a node's group, in this order. cpus=None: no limit."""
    if cpus is None:
        return {"cpu.max": "max"} if version == 2 else {"cpu.cfs_quota_us": "-1"}
    period = period_us(cpus, node)
    quota = round(cpus * period)
    if version == 2:
        return {"cpu.max": f"{quota} {period}"}
    return {"cpu.cfs_period_us": str(period), "cpu.cfs_quota_us": str(quota)}


@functools.cache
def quota_method() -> QuotaMethod | str:
    """Return how quotas are set here, tried out, or why they cannot be set. Removes the groups of killed launchers."""
    if os.geteuid() == 0:
        reasons = []
        for hierarchy in affinity.own_hierarchies():
            # In version 2 a group with processes cannot have children with limits.
            parent = hierarchy.own if hierarchy.version == 1 else hierarchy.top
            method = QuotaMethod(hierarchy.version, parent)
            try:
                try_out(method)
                _sweep(method)
                return method
            except OSError as error:
                reasons.append(f"{error.filename or parent}: {error.strerror}")
        return "; ".join(reasons) or "no control groups with the cpu controller are mounted"
    if not shutil.which("systemd-run"):
        return "without root they need systemd-run, which is not installed"
    method = QuotaMethod(2, None, _SCOPE)
    try:
        try_out(method)
    except (subprocess.CalledProcessError, subprocess.TimeoutExpired) as error:
        return f"systemd-run --user: {(error.stderr or b'').decode().strip() or error}"
    except OSError as error:
        return f"{error.filename}: {error.strerror}"
    return method


def try_out(method: QuotaMethod) -> None:
    """Limit a sleeping process. Raises OSError, CalledProcessError or TimeoutExpired if that is not possible."""
    if method.prefix:
        subprocess.run([*method.prefix, "true"], check=True, capture_output=True, timeout=_WITHIN_S)
    sleeper = subprocess.Popen([*method.prefix, "sleep", "600"], stderr=subprocess.DEVNULL)
    groups = Groups(method, "trial", 1)
    try:
        cgroup, end = Path("/proc/self/cgroup").read_text(), time.monotonic() + _WITHIN_S
        while method.prefix and Path(f"/proc/{sleeper.pid}/cgroup").read_text() == cgroup and time.monotonic() < end:
            time.sleep(0.01)  # until systemd-run has made its scope
        groups.limit([[sleeper.pid]], 0.5)
    finally:
        sleeper.kill()
        sleeper.wait()
        groups.remove()


class Groups:
    """One control group for each node of one job. `limit` and `lift` raise OSError with the file that refused."""

    def __init__(self, method: QuotaMethod, name: str, nodes: int) -> None:
        """Make nothing before `limit`. name: of the job, among those of this process."""
        self._method, self._nodes = method, nodes
        self._base = method.parent / f"kit{os.getpid()}-{_pid_namespace()}-{name}" if method.parent else None
        self._cpus = 0.0
        self._groups: list[Path] = []  # of the nodes
        self._made: list[Path] = []  # folders, each before those in it

    def _make(self, folder: Path) -> Path:
        folder.mkdir()
        self._made.append(folder)
        return folder

    def put_behind(self, pids: Sequence[int]) -> None:
        """Give processes the lowest weight: they get the time that the nodes and everything else here leave.

        Only after `limit`, and with a method that keeps awake.
        """
        assert self._base is not None
        # Beside the group of the job: within it, they would get as much as a node.
        behind = self._make(self._base.with_name(f"{self._base.name}-behind"))
        file, least = ("cpu.weight", "1") if self._method.version == 2 else ("cpu.shares", "2")
        (behind / file).write_text(least)
        for pid in pids:
            (behind / "cgroup.procs").write_text(str(pid))

    def _set(self, cpus: float | None) -> None:
        for node, group in enumerate(self._groups):
            for file, text in settings(self._method.version, cpus, node).items():
                (group / file).write_text(text)

    def limit(self, pids_of_nodes: Sequence[Sequence[int]], cpus: float) -> None:
        """Put the processes of each node into its group, then limit each group to `cpus` cores' worth of time."""
        self._cpus = cpus
        if self._base is None:
            cgroup = Path(f"/proc/{pids_of_nodes[0][0]}/cgroup").read_text().strip().rpartition(":")[2]
            self._base = Path("/sys/fs/cgroup") / cgroup.strip("/")
        else:
            if self._method.version == 2:
                (self._base.parent / "cgroup.subtree_control").write_text("+cpu")
            self._make(self._base)
        self._groups = [self._make(self._base / f"node{node}") for node in range(self._nodes)]
        for group, pids in zip(self._groups, pids_of_nodes, strict=True):
            for pid in pids:
                (group / "cgroup.procs").write_text(str(pid))
        if self._method.version == 2:
            # A group that has processes cannot enable controllers for its children: the others are moved aside.
            aside = self._make(self._base / "aside")
            for pid_text in (self._base / "cgroup.procs").read_text().split():
                (aside / "cgroup.procs").write_text(pid_text)
            (self._base / "cgroup.subtree_control").write_text("+cpu")
        self._set(cpus)

    def lift(self) -> list[NodeQuota]:
        """Lift the limits, and return how often each node reached its quota."""
        quotas = []
        for node, group in enumerate(self._groups):
            periods, throttled, seconds = affinity.cpu_statistics((group / "cpu.stat").read_text())
            period_s = period_us(self._cpus, node) / 1e6
            quotas.append(NodeQuota(node, self._cpus, period_s, periods, throttled, seconds, self._method.text))
        self._set(None)
        return quotas

    def remove(self) -> None:
        """Remove the groups once their processes have ended: the kernel takes a moment to release the last one."""
        end = time.monotonic() + _WITHIN_S
        for folder in reversed(self._made):
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError:
                    if time.monotonic() > end:
                        return  # the measurement is not affected; the next launcher's `find` removes it
                    time.sleep(0.02)


def _pid_namespace() -> int:
    """Return the number of the namespace in which this process has its process id (pid_namespaces(7))."""
    return os.stat("/proc/self/ns/pid").st_ino


def _sweep(method: QuotaMethod) -> None:
    """Remove the groups of processes that are gone. Those of other PID namespaces are not visible here."""
    for base in method.parent.glob("kit*") if method.parent else ():
        owner = re.match(rf"kit(\d+)-{_pid_namespace()}-", base.name)
        if owner and not Path("/proc", owner[1]).exists():
            for folder in [*base.glob("*/"), base]:
                with suppress(OSError):
                    folder.rmdir()


def start_spinning(cores: Iterable[int]) -> list[subprocess.Popen[bytes]]:
    """Start a process on each of these cores that keeps it awake, and return them; they end with this process.

    Ctrl-C reaches none. One node of eight uses its core for a fifth of the time. In between the core sleeps, and on a
    virtual machine the hypervisor gives it to others: it is then slower, and less predictable, than with eight nodes.
    """
    command = [sys.executable, "-m", __spec__.name]
    return [subprocess.Popen([*command, str(core), str(os.getpid())], start_new_session=True) for core in cores]


def stop_spinning(processes: Iterable[subprocess.Popen[bytes]]) -> None:
    """End the processes of `start_spinning`."""
    for process in processes:
        process.kill()
        process.wait()


def _spin(core: int, parent: int) -> None:
    """Use a core at idle priority as long as the parent of this process runs."""
    os.sched_setaffinity(0, {core})
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
    while os.getppid() == parent:
        for _ in range(_SPINS):
            pass


if __name__ == "__main__":
    _spin(*map(int, sys.argv[1:]))
