import pytest

from tests.helpers.bare_record import bare_record
from train.record import summary
from train.record.record import AllreduceTimes, Failure


def test_throughput_is_of_the_whole_job_gated_by_its_slowest_rank():
    assert summary.throughput(global_batch=64, steps=10, timed_s=20.0) == 32.0
    # 4 images a step, 2 steps, 3 s.
    assert summary.record_summary(bare_record())["images_per_s"] == pytest.approx(4 * 2 / 3.0)


def test_a_failed_run_has_none():
    assert summary.record_summary(bare_record(status="failed", failure=Failure("killed"))) == {}


def test_of_allreduces_the_largest_message_counts_as_its_slowest_rank_saw_it():
    record = bare_record()
    record.ranks[0].allreduces = [AllreduceTimes(1024, [0.001]), AllreduceTimes(4096, [0.25, 0.75])]
    assert summary.record_summary(record) == {"timed_s": 3.0, "largest_message_bytes": 4096, "largest_message_s": 0.5}
