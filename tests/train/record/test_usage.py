"""What ranks used: shares and means from samples, by hand."""

import pytest

from train.record import usage
from train.record.record import Rank, Usage


def _rank(at_s, cpu_s, memory_bytes, gpu=None, cores=(0, 1)):
    none = [None] * len(at_s)
    used = Usage(at_s, cpu_s, memory_bytes, gpu or none, [2**30] * len(at_s) if gpu else none)
    return Rank(0, 0, 0, "n", list(cores), None, {}, [], [], 0, usage=used)


def test_a_share_is_the_cpu_time_between_two_samples_over_that_of_all_cores():
    # 1.5 s of CPU time in 1 s, then 1 s in 2 s, on two cores: 3/4, 1/4
    assert usage.cpu_fractions(Usage([3.0, 4.0, 6.0], [10.0, 11.5, 12.5]), 2) == pytest.approx([0.75, 0.25])


def test_each_second_is_the_mean_over_the_ranks_that_were_sampled_in_it():
    first = _rank([3.5, 4.5, 5.5], [0.0, 2.0, 4.0], [100, 100, 300])  # busy: 1, 1
    second = _rank([4.5, 5.5], [0.0, 1.0], [500, 500])  # began a second later: 1/2
    assert usage.over_time([first, second]) == [
        usage.Use(4, 1.0, 100.0, None, None),
        usage.Use(5, 0.75, 400.0, None, None),
    ]


def test_a_gpu_counts_where_it_is_known():
    known, unknown = _rank([0.5, 1.5], [0.0, 0.0], [1, 1], [0.2, 0.8]), _rank([0.5, 1.5], [0.0, 0.0], [1, 1])
    (second,) = usage.over_time([known, unknown])
    assert (second.gpu_use_fraction, second.gpu_memory_bytes) == (0.8, 2**30)


def test_the_summary_is_the_mean_over_time_and_empty_without_samples():
    rank = _rank([0.0, 1.0, 2.0], [0.0, 2.0, 2.0], [1, 1, 1])
    assert usage.summary([rank]) == {"cpu_use_fraction": 0.5}
    assert usage.summary([_rank([0.0], [0.0], [1])]) == {}
    rank.usage = None
    assert usage.summary([rank]) == {}
