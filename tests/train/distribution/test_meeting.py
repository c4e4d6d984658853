import socket
import threading
import time
from multiprocessing import Pipe

import pytest

from tests.helpers.thread_ranks import on_all_ranks
from train.config.checks import ConfigError
from train.distribution import meeting, word
from train.distribution.meeting import beside, on_this_machine
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


def test_ranks_that_have_met_meet_once_more_by_tcp():
    def work(joined):
        here = beside(joined)
        return here.rank, [here.gather((here.rank, number)) for number in range(2)]

    rounds = [[(rank, number) for rank in range(3)] for number in range(2)]
    assert on_all_ranks(3, work) == [(rank, rounds) for rank in range(3)]


def test_ranks_that_cannot_reach_the_first_one_by_tcp_are_lost(monkeypatch):
    def refused(*place):
        raise ConnectionError("no TCP connection")

    monkeypatch.setattr(meeting.link, "connect", refused)
    monkeypatch.setattr(meeting.link, "_SILENCE_S", 0.1)

    def work(joined):
        with pytest.raises(PeerLost, match=f"rank {joined.rank}: the ranks that Horovod joined did not meet by TCP"):
            beside(joined)

    on_all_ranks(2, work)


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


def test_a_stranger_that_connects_is_no_rank(tmp_path):
    def work(rank):
        if rank:
            while not (path := tmp_path / "meeting").exists():
                time.sleep(0.01)
            with socket.create_connection(("127.0.0.1", int(path.read_text().split()[0]))) as stranger:
                stranger.sendall(b"GET / HTTP/1.0\r\n\r\n")
                assert stranger.recv(1) == b""  # rank 0 has hung up
        return on_this_machine(tmp_path, rank, 2).gather(rank)

    assert together(work, 2) == [[0, 1]] * 2


def test_a_connection_that_does_not_say_which_rank_it_is_is_an_error(monkeypatch):
    monkeypatch.setattr(meeting, "_NUMBER_WITHIN_S", 0.01)
    silent, accepted = Pipe()
    with silent, accepted, pytest.raises(Silent, match="did not say which one it is"):
        meeting.Meeting(0, 2, [accepted])


def test_a_connection_that_ends_before_it_says_which_rank_it_is_is_a_lost_rank():
    gone, accepted = Pipe()
    gone.close()
    with accepted, pytest.raises(PeerLost, match="the ranks did not meet"):
        meeting.Meeting(0, 2, [accepted])


def test_ranks_that_never_come_are_an_error_that_says_how_many(tmp_path, monkeypatch):
    monkeypatch.setattr(meeting, "IMPORT_WITHIN_S", 0.1)
    with pytest.raises(ConfigError, match=f"{tmp_path}/meeting: 2 of 3 ranks did not come"):
        on_this_machine(tmp_path, 0, 3)


def test_a_first_rank_that_never_comes_is_an_error_that_names_the_file(tmp_path, monkeypatch):
    monkeypatch.setattr(word, "IMPORT_WITHIN_S", 0.1)
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
