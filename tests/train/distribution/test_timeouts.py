import socket
import threading

import pytest

from train.distribution import link, timeouts
from train.distribution.tasks import Peer
from train.transport import channel
from train.transport.channel import Address
from train.transport.failures import RankUnresponsive


def worker(*ports):
    return Peer("n1", "127.0.0.1", dict(zip(("worker", "ps"), ports, strict=False)))


def test_a_rank_has_so_long_and_the_first_one_twice_as_long():
    workers = [worker(1), worker(2)]
    on_first, on_second = (timeouts.within(40, rank, workers, "come") for rank in (0, 1))
    on_first(1, 39.0)
    on_second(0, 79.0)
    with pytest.raises(RankUnresponsive, match=r"rank 1 \(n1\) did not come within 40 s"):
        on_first(1, 41.0)
    with pytest.raises(RankUnresponsive, match=r"rank 0 \(n1\) did not come within 80 s"):
        on_second(0, 81.0)


def test_what_accepts_a_connection_and_says_nothing_does_not_answer(monkeypatch):
    with socket.create_server(("127.0.0.1", 0)) as answering, socket.create_server(("127.0.0.1", 0)) as stopped:
        threading.Thread(target=lambda: answering.accept()[0].sendall(b"settings"), daemon=True).start()
        good, bad = (listener.getsockname()[1] for listener in (answering, stopped))
        assert link.answers(Address("127.0.0.1", good))
        monkeypatch.setattr(channel, "SILENCE_S", 0.3)
        assert not link.answers(Address("127.0.0.1", bad))


def test_a_rank_is_waited_for_as_long_as_all_its_servers_answer(monkeypatch):
    monkeypatch.setattr(link, "answers", lambda address: address.port != 2)
    wait_on = timeouts.while_answering([worker(1), worker(1, 2)])
    wait_on(0, 1000.0)
    with pytest.raises(RankUnresponsive, match=r"^rank 1 \(n1\) at 127\.0\.0\.1:2 does not answer$"):
        wait_on(1, 0.0)


@pytest.mark.slow
@pytest.mark.parametrize(("longest_s", "limit_s"), [(None, 300), (0.5, 40), (10, 40), (20, 80)])
def test_a_step_may_take_four_times_as_long_as_any_before_and_the_first_one_minutes(longest_s, limit_s):
    from train.distribution.parameter_servers import step_limit_s

    assert step_limit_s(longest_s) == limit_s
