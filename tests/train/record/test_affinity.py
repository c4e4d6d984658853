import os

import pytest

from train.record import affinity


@pytest.fixture
def topology(tmp_path, monkeypatch):
    """A folder for the kernel's description of CPUs."""
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
        ({0: "0-3", 1: "0-3", 2: "0-3", 3: "0-3"}, [0], 4),  # POWER
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
