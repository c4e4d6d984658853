from dataclasses import replace

import pytest

from train.record import usage
from train.record.assembly import Identity, JobEnd, assemble, final_ranks
from train.record.parts import Part
from train.record.record import CoreUse, Epoch, Failure, Order, RankTimeline, Resize, Server

IDENTITY = Identity(
    experiment="weak_scaling",
    point="tiny-nodes2",
    repeat=0,
    generation=1,
    config={"global_batch": 8},
    config_hash="0" * 64,
    source_digest="1" * 64,
    command=["python"],
    learning_rate=0.02,
    swept={"nodes": 2},
    order=Order(seed=0, position=1, runs=2),
)
ENDING = JobEnd(started_at=1_767_323_045.0, job_s=10.0, cores_shared=False)


def part(rank: int, timed_s: float, **other) -> Part:
    fields = dict(
        rank=rank,
        phase="exit",
        phases_s={"start": 0.5, "import": 1.0, "timed": timed_s},
        step_times_s=[timed_s / 2] * 2,
        losses=[2.0, 1.0],
        epochs=[Epoch(1, 2, 4.0, 1.5, 0.5, 1.4, 0.6)],
        finished=True,
    )
    return Part(**(fields | other))


def test_the_phases_of_every_rank_add_up_to_the_wall_time_of_the_job():
    record = assemble([part(0, 4.0), part(1, 5.0)], IDENTITY, ENDING)
    assert [sum(rank.phases_s.values()) for rank in record.ranks] == pytest.approx([10.0, 10.0])
    assert [rank.phases_s["exit"] for rank in record.ranks] == pytest.approx([4.5, 3.5])
    assert (record.status, record.started_at) == ("complete", "2026-01-02T03:04:05+00:00")
    # 8 images a step, 2 steps, in the 5 s of the slowest rank.
    assert record.summary["images_per_s"] == pytest.approx(8 * 2 / 5.0)
    assert (record.swept, record.order, record.learning_rate) == ({"nodes": 2}, Order(0, 1, 2), 0.02)


def test_a_process_that_only_holds_a_server_is_no_rank_and_its_cores_are_counted():
    counted = CoreUse(5.0, 1.0, 1.0, 0.0)
    server = part(2, 5.0, workers=0, host="n3", cores=[4, 5], peak_memory_bytes=7, timed_cores=counted, step_times_s=[])
    record = assemble([part(0, 4.0), part(1, 5.0), server], IDENTITY, ENDING)
    assert record.servers == [Server(2, "n3", [4, 5], 7, counted)]
    assert [rank.rank for rank in record.ranks] == [0, 1]
    assert record.workers == 2
    killed = Failure("killed", rank=2, host="n3")
    assert assemble([part(0, 4.0), server], IDENTITY, replace(ENDING, failure=killed)).failure == killed


def test_files_that_the_launcher_found_are_named_beside_those_of_rank_0():
    left = part(0, 4.0, attachments={"confusion.csv": "ab"})
    result = JobEnd(started_at=0.0, job_s=10.0, cores_shared=False, attachments={"horovod-timeline.json": "cd"})
    assert assemble([left], IDENTITY, result).attachments == {"confusion.csv": "ab", "horovod-timeline.json": "cd"}


def test_a_launch_with_a_timeline_has_no_throughput_for_people_either():
    slowed = RankTimeline(began_at=0.0, ahead_s=0.0, error_s=0.0)
    assert "images_per_s" not in assemble([part(0, 4.0, timeline=slowed)], IDENTITY, ENDING).summary


@pytest.mark.slow  # as many samples as a record holds
def test_of_more_samples_than_a_record_holds_some_are_kept():
    samples = [(float(second), second / 2, 1, None, None) for second in range(usage.MOST)]
    of_ranks = [part(rank, 4.0, samples=taken, cores=[rank]) for rank, taken in enumerate((samples, samples[:4], []))]
    record = assemble(of_ranks, IDENTITY, ENDING)
    assert record.ranks[0].usage.at_s == [float(second) for second in range(0, usage.MOST, 3)]
    assert (record.ranks[1].usage.at_s, record.ranks[2].usage) == ([0.0, 3.0], None)
    assert record.summary["cpu_use_fraction"] == 0.5


def test_by_hand_nobody_sees_the_end_of_the_job():
    by_hand = JobEnd(started_at=0.0, job_s=5.5, cores_shared=False, supervised=False)
    assert "exit" not in assemble([part(0, 4.0)], IDENTITY, by_hand).ranks[0].phases_s


def test_a_failed_run_keeps_what_was_measured_and_has_no_summary():
    killed = part(1, 0.0, phase="timed", phases_s={"start": 0.5, "warm_up": 2.0}, step_times_s=[], finished=False)
    record = assemble(
        [part(0, 4.0), killed], IDENTITY, JobEnd(0.0, 10.0, False, failure=Failure("killed by SIGKILL", rank=1))
    )
    assert (record.status, record.summary) == ("failed", {})
    assert record.ranks[0].step_times_s == [2.0, 2.0]
    assert record.epochs[0].validation_accuracy == 0.6
    assert record.ranks[1].phases_s == {"start": 0.5, "warm_up": 2.0, "timed": 7.5}  # it died in this phase


def test_the_cause_is_distinguished_from_its_consequences():
    lost = part(0, 4.0, failure=Failure("lost a peer", rank=0, consequence=True))
    spoilt = part(1, 4.0, failure=Failure("the loss is not finite", rank=1, step=7))
    assert assemble([lost, spoilt], IDENTITY, ENDING).failure.step == 7


def test_a_run_without_any_part_is_still_a_record():
    record = assemble([], IDENTITY, JobEnd(0.0, 1.0, False, failure=Failure("the launcher could not start")))
    assert (record.ranks, record.environment, record.status) == ([], None, "failed")


def test_elastic_training_ends_with_as_many_ranks_as_it_last_continued_with():
    left = part(0, 4.0)
    assert final_ranks([left], 2) == 2
    left.resizes = [Resize(9.0, 1, 20, 2, 1, "lost n2")]
    assert final_ranks([left, Part(rank=1)], 2) == 1
    record = assemble([left, part(1, 2.0)], IDENTITY, ENDING)
    assert [rank.rank for rank in record.ranks] == [0]  # the other one was lost
    assert "images_per_s" not in record.summary
