import pytest

from train.record import parts
from train.record.record import Environment, Epoch, Failure, Rank, Resize


def make_part(rank: int, timed_s: float, failure: Failure | None = None) -> parts.Part:
    phases = {"start": 0.5, "import": 1.0, "timed": timed_s}
    return parts.Part(
        Rank(rank, rank, rank, f"n{rank}", [rank], None, phases, [0.1], [timed_s / 2] * 2, 1000),
        failure=failure,
        environment=Environment([], {}, ["gloo"], None, None, None, None, "c0ffee", False, {}) if rank == 0 else None,
        losses=[2.0, 1.0],
        epochs=[Epoch(1, 2, 4.0, 1.5, 0.5, 1.4, 0.6)],
    )


IDENTITY = dict(
    experiment="weak_scaling",
    point="p",
    repeat=0,
    generation=1,
    config_hash="0" * 64,
    config={"global_batch": 8},
    command=["python"],
)


def assemble(left: list[parts.Part], failure: Failure | None = None):
    return parts.assemble(
        left, failure=failure, identity=IDENTITY, started_at="t", job_s=10.0, ended_at=10.0, cores_shared=False
    )


def test_parts_come_back_from_the_folder_in_the_order_of_ranks(tmp_path):
    for rank in (10, 2, 0):
        parts.write(tmp_path, make_part(rank, 4.0))
    assert [part.rank.rank for part in parts.read(tmp_path)] == [0, 2, 10]
    assert parts.read(tmp_path)[0] == make_part(0, 4.0)


def test_the_phases_of_every_rank_add_up_to_the_wall_time_of_the_job():
    record = assemble([make_part(0, 4.0), make_part(1, 5.0)])
    assert [sum(rank.phases_s.values()) for rank in record.ranks] == pytest.approx([10.0, 10.0])
    assert [rank.phases_s["exit"] for rank in record.ranks] == pytest.approx([4.5, 3.5])
    assert record.status == "complete"
    # 8 images a step, 2 steps, in the 5 s of the slowest rank.
    assert record.summary["images_per_s"] == pytest.approx(8 * 2 / 5.0)


def test_a_failed_run_keeps_what_was_measured_and_has_no_summary():
    record = assemble([make_part(0, 4.0)], failure=Failure("killed by SIGKILL", rank=1))
    assert record.status == "failed"
    assert record.summary == {}
    assert record.ranks[0].step_times_s == [2.0, 2.0]


def test_a_run_without_any_part_is_still_a_record():
    record = assemble([], failure=Failure("the launcher could not start"))
    assert record.ranks == []
    assert record.environment is None


def test_the_last_phase_is_read_from_the_log(tmp_path):
    parts.log_path(tmp_path, 1).write_text("[rank 1] phase import\nphase nonsense\n[rank 1] phase warm_up\nKilled\n")
    assert parts.last_phase(tmp_path, 1) == "warm_up"
    assert parts.last_phase(tmp_path, 2) is None


def test_elastic_training_ends_with_as_many_ranks_as_it_last_went_on_with():
    left = make_part(0, 4.0)
    assert parts.ranks_at_the_end([left], 2) == 2
    left.resizes = [Resize(9.0, 1, 20, 2, 1, "lost n2")]
    assert parts.ranks_at_the_end([left], 2) == 1
    assert "images_per_s" not in parts.summary(assemble([left]))
