import os
from dataclasses import replace
from hashlib import sha256

import pytest

from record import parts, protocol
from record.parts import JobEnd, PartWriter, RankPart, assemble
from record.schema import CoreUse, Environment, Epoch, Failure, PlanPosition, RankTimeline, Server, Usage

EPOCH = Epoch(1, 2, 4.0, 1.5, 0.5, 1.4, 0.6)
IDENTITY = {"experiment": "weak_scaling", "point": "tiny-nodes2", "config": {"global_batch": 8}, "swept": {"nodes": 2}}
IDENTITY |= {"repeat": 0, "generation": 1, "config_hash": "0" * 64, "command": ["python"], "learning_rate": 0.02}
IDENTITY["order"] = PlanPosition(0, 1, 2)
JOB_END = JobEnd(started_at=1_767_323_045.0, job_s=10.0, cores_shared=False)


def writer(folder, rank: int = 0, pid: int = 1, **fields) -> PartWriter:
    return PartWriter(protocol.part_path(folder, rank, "n1", pid), rank=rank, host="n1", **fields)


def test_fields_that_are_added_are_on_disk_at_once(tmp_path):
    part = writer(tmp_path, cores=[3])
    part.add(phase="timed", phases_s={"start": 0.5, "import": 1.0})
    part.add(phases_s={"timed": 4.0}, step_times_s=[2.0, 2.0], losses=[2.0])
    part.add(epochs=[EPOCH], losses=[1.0], environment=Environment([], {}, [], None, None, None, None, None, None, {}))
    part.add(samples=[(1.0, 0.5, 9, None, None)])
    part.add(samples=[(2.0, 1.5, 9, None, None)], failure=Failure("lost a peer", consequence=True))
    [loaded] = parts.read_parts(tmp_path).values()
    assert loaded == part.part
    assert loaded.phases_s == {"start": 0.5, "import": 1.0, "timed": 4.0}
    assert (loaded.losses, loaded.epochs, loaded.step_times_s) == ([2.0, 1.0], [EPOCH], [2.0, 2.0])
    assert (loaded.phase, loaded.finished, loaded.cores) == ("timed", False, [3])
    assert loaded.failure.consequence
    assert loaded.usage == Usage([1.0, 2.0], [0.5, 1.5], [9, 9], [None, None], [None, None])


def test_the_process_of_a_rank_that_wrote_last_counts(tmp_path):
    survivor = writer(tmp_path, rank=2, pid=3, gpu="survivor")
    survivor.add(rank=1)
    writer(tmp_path, rank=1, pid=1, gpu="lost")

    def counted(lost_wrote_at, survivor_wrote_at):
        for rank, pid, at in ((1, 1, lost_wrote_at), (2, 3, survivor_wrote_at)):  # the ranks when they began
            os.utime(protocol.part_path(tmp_path, rank, "n1", pid), (at, at))
        return [part.gpu for part in parts.read_parts(tmp_path).values()]

    assert counted(100.0, 200.0) == ["survivor"]
    assert counted(300.0, 200.0) == ["lost"]
    survivor.add(finished=True)
    assert counted(300.0, 200.0) == ["survivor"]


def test_without_a_folder_nothing_is_written_until_there_is_one(tmp_path):
    part = PartWriter(rank=3)
    part.add(notes=["before"])
    assert list(tmp_path.iterdir()) == []
    part.append_to(protocol.part_path(tmp_path, 3, "n2", 7))
    assert [*parts.read_parts(tmp_path).values()] == [RankPart(rank=3, notes=["before"])]
    part.add(notes=["after"])
    assert [*parts.read_parts(tmp_path).values()] == [RankPart(rank=3, notes=["before", "after"])]


def test_a_line_of_another_type_is_the_failure_of_its_rank_which_keeps_what_it_measured_before(tmp_path):
    part = writer(tmp_path, rank=3, phase="timed", losses=[0.5])
    with protocol.part_path(tmp_path, 3, "n1", 1).open("a") as file:
        file.write('{"step_times_s": "0.4"}\n')
    part.add(losses=[0.4], finished=True)
    (damaged,) = parts.read_parts(tmp_path).values()
    assert (damaged.losses, damaged.finished) == ([0.5], False)
    reason = "the file of the rank is damaged: Expected `array`, got `str` - at `$.step_times_s`"
    assert damaged.failure == Failure(reason, rank=3, host="n1", phase="timed")


def test_values_that_json_or_a_part_cannot_have_are_refused_and_change_nothing(tmp_path):
    part = writer(tmp_path)
    with pytest.raises(ValueError, match="JSON compliant"):
        part.add(losses=[float("nan")])
    with pytest.raises(TypeError, match="speed: no field of a RankPart"):
        part.add(speed=1.0)
    [written] = parts.read_parts(tmp_path).values()
    assert part.part.losses == written.losses == []


def part(rank: int, timed_s: float, **changes) -> RankPart:
    fields = {"phase": "exit", "step_times_s": [timed_s / 2] * 2, "epochs": [EPOCH], "finished": True}
    fields["phases_s"] = {"start": 0.5, "import": 1.0, "timed": timed_s}
    return RankPart(rank=rank, **(fields | changes))


def test_the_phases_of_every_rank_add_up_to_the_wall_time_of_the_job():
    record = assemble([part(0, 4.0), part(1, 5.0)], IDENTITY, JOB_END)
    assert [sum(rank.phases_s.values()) for rank in record.ranks] == pytest.approx([10.0, 10.0])
    assert [rank.phases_s["exit"] for rank in record.ranks] == pytest.approx([4.5, 3.5])
    assert (record.status, record.started_at) == ("complete", "2026-01-02T03:04:05+00:00")
    # 8 images a step, 2 steps, in the 5 s of the slowest rank.
    assert record.summary["images_per_s"] == pytest.approx(8 * 2 / 5.0)
    assert (record.swept, record.order, record.learning_rate) == ({"nodes": 2}, PlanPosition(0, 1, 2), 0.02)
    by_hand = assemble([part(0, 4.0)], IDENTITY, replace(JOB_END, supervised=False))
    assert "exit" not in by_hand.ranks[0].phases_s  # the end of the job is not known
    longer = assemble([part(0, 9.0)], IDENTITY, JOB_END)  # by the clock of another host
    assert longer.ranks[0].phases_s["exit"] == 0.0
    slowed = part(0, 4.0, timeline=RankTimeline(began_at=0.0, ahead_s=0.0, error_s=0.0))
    assert "images_per_s" not in assemble([slowed], IDENTITY, JOB_END).summary


def test_the_time_that_a_rank_did_not_book_is_of_its_exit_or_of_the_phase_in_which_it_was_killed():
    failed = part(0, 4.0, phase="evaluate", finished=False, failure=Failure("no space"))
    killed = part(1, 4.0, phase="evaluate", finished=False)
    record = assemble([failed, killed], IDENTITY, JOB_END)
    booked_s = {"start": 0.5, "import": 1.0, "timed": 4.0}
    assert [rank.phases_s for rank in record.ranks] == [booked_s | {"exit": 4.5}, booked_s | {"evaluate": 4.5}]


def test_a_rank_that_was_moved_is_named_and_its_run_is_not_valid_as_a_scaling_result():
    use = CoreUse(5.0, 4.0, 4.0, 0.0, moved_to=[])
    stays = part(0, 4.0, host="n1", cores=[0], timed_cores=use)
    moved = part(1, 4.0, host="n1", cores=[1, 2], timed_cores=replace(use, moved_to=[0, 3]), notes=["of rank 1"])
    assert not assemble([stays, replace(moved, timed_cores=use)], IDENTITY, JOB_END).cores_shared
    record = assemble([stays, moved], IDENTITY, JOB_END)
    assert record.cores_shared
    assert record.notes == ["rank 1 on n1 was moved from core 1, 2 to 0, 3 while it was timed"]
    assert stays.notes == []


def test_a_process_that_only_holds_a_server_is_no_rank_and_its_cores_are_counted():
    busy = CoreUse(5.0, 1.0, 1.0, 0.0)
    server = part(2, 5.0, workers=0, host="n3", cores=[4, 5], peak_memory_bytes=7, timed_cores=busy, step_times_s=[])
    record = assemble([part(0, 4.0), part(1, 5.0), server], IDENTITY, JOB_END)
    assert record.servers == [Server(2, "n3", [4, 5], 7, busy)]
    assert [rank.rank for rank in record.ranks] == [0, 1]
    assert record.workers == 2
    killed = Failure("killed", rank=2, host="n3")
    assert assemble([part(0, 4.0), server], IDENTITY, replace(JOB_END, failure=killed)).failure == killed


def test_a_failed_run_keeps_what_was_measured_and_has_no_summary():
    killed = part(1, 0.0, phase="timed", phases_s={"start": 0.5, "warm_up": 2.0}, step_times_s=[], finished=False)
    record = assemble([part(0, 4.0), killed], IDENTITY, replace(JOB_END, failure=Failure("killed by SIGKILL", rank=1)))
    assert (record.status, record.summary) == ("failed", {})
    assert record.ranks[0].step_times_s == [2.0, 2.0]
    assert record.epochs[0].validation_accuracy == 0.6
    assert record.ranks[1].phases_s == {"start": 0.5, "warm_up": 2.0, "timed": 7.5}  # it died in this phase
    without = assemble([], IDENTITY, replace(JOB_END, failure=Failure("no rank started"), attachments={"a": "b"}))
    assert (without.ranks, without.environment, without.status, without.attachments) == ([], None, "failed", {"a": "b"})


def test_a_part_that_is_read_while_it_grows_is_that_of_the_whole_file(tmp_path):
    path = protocol.part_path(tmp_path, 1, "n1", 7)
    part, reader = PartWriter(path, rank=1, losses=[1.0]), parts.PartReader(path)
    assert reader.read() == reader.read() == RankPart(rank=1, losses=[1.0])
    part.add(losses=[2.0])
    with path.open("a") as file:
        file.write('{"losses": [3.')  # a line that is being written
        file.flush()
        assert reader.read() == parts.decoded_part(path.read_bytes()) == RankPart(rank=1, losses=[1.0, 2.0])
        file.write("5]}\n")
    assert reader.read() == parts.read_part(path) == RankPart(rank=1, losses=[1.0, 2.0, 3.5])


def test_a_record_has_the_identity_of_its_assignment():
    assignment = protocol.Assignment(
        {"rounds_end_s": 9.0}, "c0de", 2, {"a.py": "1"}, hosts_apart=False, quotas=False,
        rounds=protocol.RoundsTask(enough_rounds=5), identity={"point": "tiny"},
    )  # fmt: skip
    expected = {"point": "tiny", "repeat": 2, "config_hash": "c0de", "rounds_end_s": 9.0, "enough_rounds": 5}
    expected |= {"config": {"rounds": ["arm"]}, "source_digest": sha256(b'{"a.py": "1"}').hexdigest()}
    assert parts.identity(assignment, {"rounds": ["arm"]}) == expected
    assert parts.identity(assignment, {"rounds": []})["rounds_end_s"] is None
