import os

import pytest

from train.record import parts, protocol
from train.record.parts import Part, PartWriter
from train.record.record import Environment, Epoch, Failure, Usage

EPOCH = Epoch(1, 2, 4.0, 1.5, 0.5, 1.4, 0.6)


def writer(folder, rank: int = 0, pid: int = 1, **first) -> PartWriter:
    return PartWriter(protocol.part_path(folder, rank, "n1", pid), rank=rank, host="n1", **first)


def test_what_was_added_is_on_disk_at_once(tmp_path):
    part = writer(tmp_path, cores=[3])
    part.add(phase="timed", phases_s={"start": 0.5, "import": 1.0})
    part.add(phases_s={"timed": 4.0}, step_times_s=[2.0, 2.0], losses=[2.0])
    part.add(epochs=[EPOCH], losses=[1.0], environment=Environment([], {}, [], None, None, None, None, None, None, {}))
    part.add(samples=[(1.0, 0.5, 9, None, None)])
    part.add(samples=[(2.0, 1.5, 9, None, None)], failure=Failure("lost a peer", consequence=True))
    [read] = parts.read(tmp_path)
    assert read == part.part
    assert read.phases_s == {"start": 0.5, "import": 1.0, "timed": 4.0}
    assert (read.losses, read.epochs, read.step_times_s) == ([2.0, 1.0], [EPOCH], [2.0, 2.0])
    assert (read.phase, read.finished, read.cores) == ("timed", False, [3])
    assert read.failure.consequence
    assert read.usage == Usage([1.0, 2.0], [0.5, 1.5], [9, 9], [None, None], [None, None])


def test_a_line_that_was_cut_off_costs_only_itself(tmp_path):
    part = writer(tmp_path)
    part.add(warm_up_step_times_s=[0.1])
    path = protocol.part_path(tmp_path, 0, "n1", 1)
    with path.open("a") as file:
        file.write('{"step_times_s": [0.2, 0.')
    assert parts.read(tmp_path)[0].warm_up_step_times_s == [0.1]
    assert parts.read(tmp_path)[0].step_times_s == []


def test_parts_come_back_in_the_order_of_ranks(tmp_path):
    for rank in (10, 2, 0):
        writer(tmp_path, rank)
    assert [part.rank for part in parts.read(tmp_path)] == [0, 2, 10]


def test_of_several_processes_of_a_rank_the_one_that_wrote_last_counts(tmp_path):
    survivor = writer(tmp_path, rank=2, pid=3, began_at=5.0, gpu="survivor")
    survivor.add(rank=1)
    writer(tmp_path, rank=1, pid=1, began_at=10.0, gpu="lost")
    paths = sorted(tmp_path.glob("rank-*"))  # rank-1 and rank-2, as they were when they began
    for path, written_at in zip(paths, (100.0, 200.0), strict=True):
        os.utime(path, (written_at, written_at))
    assert [part.gpu for part in parts.read(tmp_path)] == ["survivor"]
    os.utime(paths[0], (300.0, 300.0))
    assert [part.gpu for part in parts.read(tmp_path)] == ["lost"]
    survivor.add(finished=True)
    os.utime(paths[1], (200.0, 200.0))
    assert [part.gpu for part in parts.read(tmp_path)] == ["survivor"]


def test_without_a_folder_nothing_is_written_until_there_is_one(tmp_path):
    part = PartWriter(rank=3)
    part.add(notes=["before"])
    assert list(tmp_path.iterdir()) == []
    part.append_to(protocol.part_path(tmp_path, 3, "n2", 7))
    part.add(notes=["after"])
    assert parts.read(tmp_path) == [Part(rank=3, notes=["before", "after"])]


def test_what_json_or_a_part_does_not_have_is_refused_and_changes_nothing(tmp_path):
    part = writer(tmp_path)
    with pytest.raises(ValueError, match="JSON compliant"):
        part.add(losses=[float("nan")])
    with pytest.raises(TypeError, match="speed: no field of a Part"):
        part.add(speed=1.0)
    assert part.part.losses == parts.read(tmp_path)[0].losses == []


def test_a_consequence_is_named_only_where_there_is_no_cause():
    lost = Part(rank=0, failure=Failure("lost a peer", rank=0, consequence=True))
    cause = Part(rank=1, failure=Failure("NaN", rank=1))
    assert parts.first_failure([lost, cause]) == cause.failure
    assert parts.first_failure([lost]) == lost.failure
    assert parts.first_failure([Part()]) is None
