import os
from pathlib import Path

import pytest

from common import affinity
from common.affinity import Hierarchy
from train.tools import doctor


@pytest.fixture
def topology(tmp_path, monkeypatch):
    """Return a function that describes CPUs as the kernel does."""
    monkeypatch.setattr(affinity, "CPUS", tmp_path)

    def write(siblings: dict[int, str]) -> None:
        for cpu, text in siblings.items():
            folder = tmp_path / f"cpu{cpu}/topology"
            folder.mkdir(parents=True)
            (folder / "thread_siblings_list").write_text(f"{text}\n")

    return write


@pytest.mark.parametrize(
    ("siblings", "cores", "threads"),
    [
        ({0: "0", 1: "1", 2: "2"}, [0, 1, 2], 1),
        ({0: "0,2", 1: "1,3", 2: "0,2", 3: "1,3"}, [0, 1], 2),  # Intel: the second threads come after all first ones
        ({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"}, [0, 2], 2),  # neighbours, as in many virtual machines
        ({2: "0,2", 3: "1,3"}, [2, 3], 2),  # a cpuset with the second threads alone
        ({}, [0, 1], 1),  # the kernel does not say
    ],
)
def test_a_core_is_counted_once(topology, siblings, cores, threads):
    topology(siblings)
    cpus = [*siblings] or [0, 1]
    assert affinity.whole_cores(cpus) == cores
    assert affinity.threads_per_core(cpus) == threads


def test_a_process_is_bound_to_one_thread_of_each_core_unless_it_asks_for_all(topology, monkeypatch):
    topology({0: "0-1", 1: "0-1", 2: "2-3", 3: "2-3"})
    bound = []
    monkeypatch.setattr(os, "sched_getaffinity", lambda process: {0, 1, 2, 3})
    monkeypatch.setattr(os, "sched_setaffinity", lambda process, cpus: bound.append(cpus))
    affinity.use(smt=True)
    assert bound == []
    affinity.use(smt=False)
    assert bound == [[0, 2]]


def test_cores_that_a_process_may_not_take_are_named(monkeypatch):
    def refused(process, cpus):
        raise PermissionError(1, "Operation not permitted")

    monkeypatch.setattr(os, "sched_setaffinity", refused)
    text = r"cannot bind a process to cores 0, 2 \(sched_setaffinity\): Operation not permitted"
    with pytest.raises(OSError, match=text):
        affinity.bind({2, 0})
    check = doctor.check_cores(1)
    assert (check.state, "sched_setaffinity" in check.result) == (doctor.FAILURE, True)


# To be filled with the root, the mount point and the controllers.
V1 = "31 23 0:28 / /sys/fs/cgroup rw - tmpfs tmpfs rw\n32 31 0:29 {} {} rw,relatime - cgroup cgroup rw,{}"
V2 = "41 31 0:38 / {} rw,nsdelegate shared:4 - cgroup2 cgroup2 rw,nsdelegate"


@pytest.mark.parametrize(
    ("mountinfo", "membership", "expected"),
    [
        (
            V1.format("/", "/sys/fs/cgroup/cpu,cpuacct", "cpu,cpuacct"),
            "4:memory:/x\n3:cpu,cpuacct:/jobs/7\n0::/x",
            [(1, "/sys/fs/cgroup/cpu,cpuacct", "jobs/7")],
        ),
        # in a container this process's group is mounted
        (V1.format("/docker/ab", "/sys/cgroup/cpu", "cpu"), "1:cpu:/docker/ab", [(1, "/sys/cgroup/cpu", "")]),
        (V1.format("/", "/sys/fs/cgroup/cpuset", "cpuset"), "3:cpuset:/", []),
        (V2.format("/sys/fs/cgroup"), "0::/user.slice/1.scope", [(2, "/sys/fs/cgroup", "user.slice/1.scope")]),
    ],
)  # fmt: skip
def test_the_group_of_this_process(mountinfo, membership, expected):
    hierarchies = [Hierarchy(version, Path(top), Path(top, own)) for version, top, own in expected]
    assert affinity.hierarchies(mountinfo, membership) == hierarchies


FIRST = "nr_periods 50\nnr_throttled 20\nthrottled_time 1500000000\nnr_bursts 0\nburst_time 0\n"
SECOND = "usage_usec 9\nuser_usec 5\nsystem_usec 4\nnr_periods 50\nnr_throttled 20\nthrottled_usec 1500000\n"


def test_the_statistics_of_both_versions():
    assert affinity.cpu_statistics(FIRST) == affinity.cpu_statistics(SECOND) == (50, 20, 1.5)


@pytest.fixture
def group(tmp_path, topology, monkeypatch):  # no core has two threads
    """Set files of the groups /pod and /pod/box, of which the second is this process's, on a machine of eight cores."""
    affinity.cpu_quota.cache_clear()

    def write(version: int, files: dict[str, str]) -> Path:
        for name, text in files.items():
            path = tmp_path / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        mounts = V2.format(tmp_path) if version == 2 else V1.format("/", tmp_path, "cpu")
        (tmp_path / "mounts").write_text(mounts)
        (tmp_path / "cgroup").write_text("0::/pod/box" if version == 2 else "1:cpu:/pod/box")
        return tmp_path

    monkeypatch.setattr(affinity, "_MOUNTS", tmp_path / "mounts")
    monkeypatch.setattr(affinity, "_CGROUP", tmp_path / "cgroup")
    monkeypatch.setattr(os, "sched_getaffinity", lambda pid: set(range(8)))
    monkeypatch.setattr(affinity.socket, "gethostname", lambda: "f")  # whose CRC is a multiple of eight
    yield write
    affinity.cpu_quota.cache_clear()


@pytest.mark.parametrize(
    ("version", "files", "cores"),
    [
        (2, {"pod/box/cpu.max": "150000 100000\n", "pod/cpu.max": "400000 100000\n"}, 1),  # 1.5 cores
        (2, {"pod/box/cpu.max": "max 100000\n", "pod/cpu.max": "400000 100000\n"}, 4),  # of the pod
        (2, {"pod/box/cpu.max": "20000 100000\n"}, 1),
        (2, {"pod/box/cpu.max": "199999 100000\n"}, 2),
        (2, {"pod/box/cpu.max": "1600000 100000\n"}, 8),
        (2, {}, 8),
        (1, {"pod/box/cpu.cfs_quota_us": "200000\n", "pod/box/cpu.cfs_period_us": "100000\n"}, 2),
        (1, {"pod/box/cpu.cfs_quota_us": "-1\n", "pod/box/cpu.cfs_period_us": "100000\n"}, 8),
    ],
)
def test_a_quota_counts_as_the_cores_that_it_is_worth(group, version, files, cores):
    group(version, files)
    assert affinity.usable_cores() == [*range(cores)]


def test_a_quota_takes_whole_cores_first_and_other_hosts_other_cores(group, topology, monkeypatch):
    group(2, {"pod/box/cpu.max": "200000 100000\n"})
    topology({cpu: f"{cpu // 2 * 2}-{cpu // 2 * 2 + 1}" for cpu in range(8)})
    assert affinity.usable_cores() == affinity.whole_cores(affinity.usable_cores()) == [0, 2]
    monkeypatch.setattr(affinity.socket, "gethostname", lambda: "pod-1")
    assert affinity.usable_cores() == affinity.whole_cores(affinity.usable_cores()) != [0, 2]


def test_throttling_since_a_moment_is_a_note(group):
    folder = group(2, {"pod/box/cpu.max": "150000 100000", "pod/box/cpu.stat": SECOND})
    before = affinity.throttling()
    assert affinity.throttling_note(before) is None
    (folder / "pod/box/cpu.stat").write_text(SECOND.replace(" 20", " 23").replace("1500000", "1750000"))
    assert "quota of 1.5 cores stopped processes 3 times, for 0.2 s" in affinity.throttling_note(before)
    assert "a CPU quota of 1.5: " in doctor.check_cores(1).result
