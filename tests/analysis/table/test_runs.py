from analysis.table.runs import Notice, read
from tests.helpers.own_records import make_record, save
from train.record.record import Failure


def test_a_record_keeps_the_learning_rate_that_was_in_force(results):
    run = make_record(nodes=2)
    run.learning_rate = 0.123  # whatever the configuration would give today
    made = read(save(run, results.folder))
    assert made.columns["learning_rate"] == 0.123


def test_a_failed_run_says_where_it_failed_as_far_as_it_is_known(results):
    path = results.add(failure=Failure("out of memory", rank=1, phase="build"))
    assert read(path) == Notice(True, str(path), "out of memory (rank 1, phase build)")


def test_an_impossible_number_is_no_measurement(results):
    run = make_record()
    run.job_s = -1.0
    path = save(run, results.folder)
    assert read(path) == Notice(False, str(path), "impossible: job_s = -1")
    assert str(read(path)) == f"{path}: impossible: job_s = -1"


def test_a_complete_run_without_ranks_is_left_out(results):
    run = make_record()
    run.ranks = []
    notice = read(save(run, results.folder))
    assert isinstance(notice, Notice)
    assert not notice.failed
