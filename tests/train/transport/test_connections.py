import socket
import threading
import time

import pytest

from train.transport import connections
from train.transport.connections import Address

KEY = b"k" * 64


@pytest.fixture
def listener():
    with connections.listen("127.0.0.1") as listener:
        yield listener


def address_of(listener):
    return Address(*listener.getsockname())


def connecting(listener, key, rank=1):
    """A thread that connects, and the list in which it leaves the connection, or why there is none."""
    result = []

    def connect():
        try:
            result.append(connections.connect(address_of(listener), key, rank))
        except ConnectionError as error:
            result.append(error)

    thread = threading.Thread(target=connect)
    thread.start()
    return thread, result


def test_both_ends_know_the_secret_and_one_says_its_rank(listener):
    thread, result = connecting(listener, KEY, rank=7)
    [(rank, accepted)] = connections.accept(listener, KEY)
    thread.join()
    with accepted, result[0] as connected:
        assert rank == 7
        connected.sendall(b"hello")
        assert accepted.recv(5) == b"hello"


def test_one_with_another_secret_is_turned_away_and_the_next_one_heard(listener):
    stranger, refused = connecting(listener, b"x" * 64, rank=1)
    time.sleep(0.1)
    known, result = connecting(listener, KEY, rank=2)
    [(rank, accepted)] = connections.accept(listener, KEY)
    stranger.join()
    known.join()
    with accepted, result[0]:
        assert rank == 2
    assert isinstance(refused[0], ConnectionError)


def test_ones_that_say_nothing_keep_no_rank_waiting(listener):
    silent = [socket.create_connection(address_of(listener)) for _ in range(10)]
    known, result = connecting(listener, KEY)
    began = time.monotonic()
    [(_, accepted)] = connections.accept(listener, KEY)
    assert time.monotonic() - began < connections.PROOF_WITHIN_S
    known.join()
    with accepted, result[0]:
        for one in silent:
            assert one.recv(100)  # the nonce
            assert one.recv(1) == b""
            one.close()


def test_a_listener_that_does_not_know_the_secret_is_no_rank(listener):
    def pretend():
        accepted, _ = listener.accept()
        with accepted:
            accepted.sendall(b"n" * 32)
            accepted.recv(1000)
            accepted.sendall(b"m" * 32)

    threading.Thread(target=pretend, daemon=True).start()
    with pytest.raises(ConnectionError, match="it does not know the secret of this job"):
        connections.connect(address_of(listener), KEY, 1)


def test_what_one_end_proved_is_no_proof_by_the_other(listener):
    """A listener that sends a rank's own proof back is no rank."""

    def mirror():
        accepted, _ = listener.accept()
        with accepted:
            accepted.sendall(b"n" * 32)
            accepted.sendall(accepted.recv(1000)[-32:])

    threading.Thread(target=mirror, daemon=True).start()
    with pytest.raises(ConnectionError, match="it does not know the secret of this job"):
        connections.connect(address_of(listener), KEY, 1)


def test_ranks_that_do_not_come_are_counted_also_where_strangers_do(listener):
    thread, result = connecting(listener, KEY)
    silent = socket.create_connection(address_of(listener))
    with pytest.raises(TimeoutError, match=r"1 of 2 came within 0\.5 s"):
        connections.accept(listener, KEY, 2, 0.5)
    thread.join()
    result[0].close()
    silent.close()


def test_nobody_listens(listener):
    address = address_of(listener)
    listener.close()
    with pytest.raises(ConnectionError, match=rf"no TCP connection to 127\.0\.0\.1:{address.port}: .*refused"):
        connections.connect(address, KEY, 1)


def test_ranks_of_one_host_meet_on_loopback_and_others_on_the_card_towards_them(monkeypatch):
    monkeypatch.delenv("HOROVOD_GLOO_IFACE", raising=False)
    own = {"127.0.0.1": "lo", "10.0.0.5": "eth0", "10.1.0.5": "ib0"}
    monkeypatch.setattr(connections.placement, "addresses", lambda: own)
    monkeypatch.setattr(connections.placement, "address_towards", lambda hosts: "10.0.0.5")
    assert connections.bind_host(["n1", "n1"]) == "127.0.0.1"
    assert connections.bind_host(["n1", "n2"]) == "10.0.0.5"
    monkeypatch.setenv("HOROVOD_GLOO_IFACE", "ib0")  # as for emulated nodes, whose ranks are all on one host
    assert connections.bind_host(["n1", "n1"]) == connections.bind_host(["n1", "n2"]) == "10.1.0.5"


def test_a_host_whose_name_has_no_address_takes_a_card(monkeypatch):
    monkeypatch.delenv("HOROVOD_GLOO_IFACE", raising=False)
    monkeypatch.setattr(connections.placement, "addresses", lambda: {"127.0.0.1": "lo", "10.0.0.5": "eth0"})
    assert connections.bind_host(["no-such-host.invalid", "other.invalid"]) == "10.0.0.5"
