import math
from dataclasses import replace

import pytest

from tests.helpers.context import FirstOfTwo, make_context
from train.config.compose import load

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def config():
    small = {"smallest_bytes": 1024, "largest_bytes": 4096, "probe_s": 0.01, "max_timed": 6, "rounds": 3}
    values = [f"allreduce_sweep.{key}={value}" for key, value in small.items()]
    return load(["experiment=allreduce_bench", "nodes=2", *values])


@pytest.fixture(scope="module")
def allreduce():
    from train.allreduce import sweep

    return sweep


def test_messages_have_their_size_and_their_sum_is_checked_to_the_last_element(allreduce):
    messages = [allreduce.make_message(1024, rank).numpy() for rank in range(3)]
    assert [message.nbytes for message in messages] == [1024] * 3
    assert messages[2][:9].tolist() == [2, 3, 4, 5, 6, 7, 8, 9, 2]
    total = sum(messages)
    assert total[:3].tolist() == [3, 6, 9]  # 0+1+2, 1+2+3, 2+3+4
    assert allreduce.is_sum(total, 3)
    assert not allreduce.is_sum(total, 2)
    total[-1] += 1
    assert not allreduce.is_sum(total, 3)


def test_as_many_are_timed_as_fit_into_the_time(allreduce, config):
    # 2 s for a size, at least 5, at most 20, in three rounds
    more = replace(config.allreduce_sweep, max_timed=20)
    assert [allreduce.timed_count(time_s, more) for time_s in (0.001, 0.2, 0.35, 10.0)] == [7, 4, 2, 2]


class Summing(FirstOfTwo):
    """Adds to each sum the message of rank 1, a function of the size in bytes and the rank."""

    def __init__(self, rank_1_message):
        super().__init__()
        self._rank_1_message = rank_1_message

    def allreduce(self, tensor, name):
        return tensor + self._rank_1_message(4 * int(tensor.shape[0]), 1)


@pytest.fixture
def run_sweep(allreduce, config, monkeypatch):
    """Run a sweep with a second rank; return the part of rank 0 and its clock."""

    def run(rank_1_message=allreduce.make_message):
        monkeypatch.setattr(allreduce.links, "measure_bandwidth", lambda *_: ([], ["tcp_stream: no way"]))
        context = make_context(config, Summing(rank_1_message))
        allreduce.run(context)
        return context.part.part, context.clock

    return run


def test_every_size_is_timed_and_what_was_not_measured_is_reported(run_sweep):
    part, clock = run_sweep()
    result = sorted((row.round, row.message_bytes, len(row.times_s)) for row in part.allreduces)
    assert result == [(number, size, 2) for number in range(3) for size in (1024, 2048, 4096)]
    orders = {tuple(row.message_bytes for row in part.allreduces if row.round == number) for number in range(3)}
    assert len(orders) > 1
    times_s = [time_s for row in part.allreduces for time_s in row.times_s]
    assert all(0 < time_s < math.inf for time_s in times_s)
    assert part.notes == ["not measured: tcp_stream: no way"]
    assert clock.seconds["timed"] == 9.0  # one tick for a size in a round
    assert part.timed_cores.wall_s >= sum(times_s)


def test_wrong_sums_stop_the_run(run_sweep):
    with pytest.raises(RuntimeError, match=r"the allreduce of (1024|2048|4096) bytes returned wrong sums"):
        run_sweep(lambda size, rank: 0)


def test_sizes_beyond_the_memory_are_named(allreduce, run_sweep, monkeypatch):
    free = allreduce.psutil.virtual_memory()._replace(available=allreduce.COPIES_OF_MESSAGE * 2048)
    monkeypatch.setattr(allreduce.psutil, "virtual_memory", lambda: free)
    part, _ = run_sweep()
    assert {row.message_bytes for row in part.allreduces} == {1024, 2048}
    assert part.notes[-1].startswith("messages of 4096 bytes and more left out")
