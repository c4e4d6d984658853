from dataclasses import replace

import pytest

from record import record_summary
from record.schema import AllreduceTimes, Epoch, PrintedRate, Rank, RankTimeline
from tests.helpers.bare_record import bare_record

SLOWER = Rank(1, 0, 1, "n1", [0], None, {"timed": 4.0}, [], [2.0, 2.0], 0)
EPOCH = Epoch(1, 2, 3.0, 1.0, 0.5, validation_accuracy=0.5)
RATE = {"timed_s": 3.0, "images_per_s": 8 / 3}  # two steps with a global batch of 4 in 3 s


@pytest.mark.parametrize(
    ("changes", "summary"),
    [
        ({}, RATE),
        ({"ranks": [bare_record().ranks[0], SLOWER]}, {"timed_s": 4.0, "images_per_s": 2.0}),
        ({"status": "failed"}, {}),
        ({"ranks": []}, {}),
        ({"printed": PrintedRate(7.0, "7", "RATE")}, {"timed_s": 3.0, "images_per_s": 7.0}),
        ({"ranks": [replace(SLOWER, timeline=RankTimeline(0.0, 0.0, 0.0, []))]}, {"timed_s": 4.0}),
        ({"ranks": [replace(SLOWER, step_times_s=[])]}, {"timed_s": 4.0}),  # a launch in rounds
        ({"epochs": [EPOCH]}, RATE | {"validation_accuracy": 0.5}),
        (
            {"epochs": [EPOCH, replace(EPOCH, validation_accuracy=0.75, validation_mean_absolute_error=0.0)]},
            RATE | {"validation_accuracy": 0.75, "validation_mean_absolute_error": 0.0},
        ),
    ],
)
def test_the_numbers_of_a_run_follow_from_its_slowest_rank(changes, summary):
    assert record_summary.record_summary(bare_record(**changes)) == summary


def test_the_largest_message_of_a_sweep_counts_with_the_time_of_its_slowest_rank():
    first, second = (
        [AllreduceTimes(1024, [0.001]), AllreduceTimes(4096, times_s)] for times_s in ([0.25, 0.75], [0.25])
    )
    record = bare_record(ranks=[replace(SLOWER, allreduces=first), replace(SLOWER, allreduces=second)])
    assert record_summary.record_summary(record) == {
        "timed_s": 4.0,
        "largest_message_bytes": 4096,
        "largest_message_s": 0.5,
    }


def _rank(at_s, cpu_s, memory_bytes, gpu=None, cores=(0, 1)):
    none = [None] * len(at_s)
    columns = at_s, cpu_s, memory_bytes, gpu or none, [2**30] * len(at_s) if gpu else none
    used = record_summary.usage_columns([*zip(*columns, strict=True)])
    return Rank(0, 0, 0, "n", list(cores), None, {}, [], [], 0, usage=used)


def test_each_second_is_the_mean_over_the_ranks_that_were_sampled_in_it():
    # CPU time between two samples over that of two cores.
    first = _rank([3.5, 4.5, 5.5], [0.0, 2.0, 4.0], [100, 100, 300])  # 2 s in 1 s: 1, 1
    second = _rank([4.5, 5.5], [0.0, 1.0], [500, 500])  # began a second later: 1/2
    assert record_summary.usage_by_second([first, second]) == [
        record_summary.UsageSecond(4, 1.0, 100.0, None, None),
        record_summary.UsageSecond(5, 0.75, 400.0, None, None),
    ]


def test_a_gpu_counts_where_it_is_known():
    with_gpu, without_gpu = _rank([0.5, 1.5], [0.0, 0.0], [1, 1], [0.2, 0.8]), _rank([0.5, 1.5], [0.0, 0.0], [1, 1])
    (second,) = record_summary.usage_by_second([with_gpu, without_gpu])
    assert (second.gpu_use_fraction, second.gpu_memory_bytes) == (0.8, 2**30)


def test_the_summary_is_the_mean_over_time_and_empty_without_samples():
    rank = _rank([0.0, 1.0, 2.0], [0.0, 2.0, 2.0], [1, 1, 1])
    assert record_summary.mean_usage([rank]) == {"cpu_use_fraction": 0.5}
    assert record_summary.mean_usage([_rank([0.0], [0.0], [1])]) == {}
    rank.usage = record_summary.usage_columns([])
    assert record_summary.mean_usage([rank]) == {}


def test_samples_of_the_same_seconds_are_kept_on_all_ranks():
    # 60 s on one rank and the third to the 40th on another: 98 samples, of which 24 may stay, 12 a rank: one in 6 s
    busy, short = ([0.5 + second for second in seconds] for seconds in (range(60), range(2, 40)))
    ranks = [_rank(at_s, [2 * at for at in at_s], [round(at) for at in at_s]).usage for at_s in (busy, short)]
    assert record_summary.thinned_usage([*ranks, None], max_samples=98) == [*ranks, None]
    first, second = record_summary.thinned_usage(ranks, max_samples=24)
    assert first.at_s == [0.5 + second for second in range(0, 60, 6)]
    assert second.at_s == [2.5, *first.at_s[1:7]]
    for usage in (first, second):  # as with all samples
        assert record_summary.cpu_fractions(usage, 2) == [1.0] * (len(usage.at_s) - 1)
        assert all(len(column) == len(usage.at_s) for column in vars(usage).values())
