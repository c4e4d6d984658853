import threading

import pytest

from train.config.checks import ConfigError
from train.distribution import meeting
from train.distribution.meeting import on_this_machine
from train.distribution.protocol import PeerLost, Silent


def together(work, size):
    """What `work(rank)` returns, or raises, on each of so many ranks at once."""
    found = {}

    def one(rank):
        try:
            found[rank] = work(rank)
        except Exception as error:
            found[rank] = error

    threads = [threading.Thread(target=one, args=(rank,)) for rank in range(size)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(240)
    return [found[rank] for rank in range(size)]


def test_every_rank_gets_the_values_of_all_in_the_order_of_ranks(tmp_path):
    def work(rank):
        here = on_this_machine(tmp_path, rank, 4)
        here.barrier()
        return [here.gather((rank, number)) for number in range(2)]

    rounds = [[(rank, number) for rank in range(4)] for number in range(2)]
    assert together(work, 4) == [rounds] * 4


@pytest.mark.parametrize("lost", [0, 2])
def test_a_rank_that_is_gone_is_missed_by_the_others(tmp_path, lost):
    def work(rank):
        here = on_this_machine(tmp_path, rank, 3)
        here.barrier()
        if rank == lost:
            for other in here._others:
                other.close()
            return None
        here.gather(rank)

    found = together(work, 3)
    assert found[lost] is None
    assert all(isinstance(error, PeerLost) for rank, error in enumerate(found) if rank != lost)


def test_a_first_rank_that_never_comes_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(meeting, "IMPORT_WITHIN_S", 0.1)
    with pytest.raises(ConfigError, match=f"{tmp_path}/meeting: rank 0 did not write this"):
        on_this_machine(tmp_path, 1, 2)


def test_a_late_rank_is_waited_for_as_long_as_patience_lasts(tmp_path, monkeypatch):
    monkeypatch.setattr(meeting, "_LOOK_EVERY_S", 0.05)
    missed, met = threading.Event(), []

    def patience(other, waited_s):
        missed.set()  # rank 2 comes only then

    def waits(rank):
        here = on_this_machine(tmp_path, rank, 3)
        met.append(here)
        if rank == 0:
            here.patience = patience
        if rank == 2:
            missed.wait(30)
        return here.gather(rank)

    assert together(waits, 3) == [[0, 1, 2]] * 3


def test_a_rank_that_is_not_waited_for_any_longer_is_an_error(tmp_path, monkeypatch):
    monkeypatch.setattr(meeting, "_LOOK_EVERY_S", 0.05)
    met = []

    def patience(other, waited_s):
        raise Silent(f"rank {other}")

    def work(rank):
        met.append(here := on_this_machine(tmp_path, rank, 2))
        if rank == 0:
            here.patience = patience
            here.barrier()

    first, _ = together(work, 2)
    assert (type(first), str(first)) == (Silent, "rank 1")
