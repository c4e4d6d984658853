import os
import pickle
import socket
import threading
import time
from dataclasses import dataclass

import pytest

from train.config.checks import ConfigError
from train.transport import connections
from train.transport.connections import Address, Channel

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


@pytest.mark.parametrize("proof", [lambda own: b"m" * 32, lambda own: own], ids=["made up", "sent back"])
def test_a_listener_that_does_not_know_the_secret_is_no_rank(listener, proof):
    def pretend():
        accepted, _ = listener.accept()
        with accepted:
            accepted.sendall(b"n" * 32)
            accepted.sendall(proof(accepted.recv(1000)[-32:]))

    threading.Thread(target=pretend, daemon=True).start()
    with pytest.raises(ConnectionError, match="it does not know the secret of this job"):
        connections.connect(address_of(listener), KEY, 1)


def test_ranks_that_do_not_come_are_counted_also_where_strangers_do(listener):
    thread, result = connecting(listener, KEY)
    silent = socket.create_connection(address_of(listener))
    with pytest.raises(TimeoutError, match=r"1 of 2 came within 0\.2 s"):
        connections.accept(listener, KEY, 2, 0.2)
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


@dataclass(frozen=True)
class Point:
    name: str
    times_s: list[float]


@pytest.fixture
def ends():
    left, right = socket.socketpair()
    yield left, right
    left.close()
    right.close()


@pytest.fixture
def tcp():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        left = socket.create_connection(listener.getsockname())
        right, _ = listener.accept()
    with left, right:
        yield left, right


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (Point("a", [0.1, float("inf")]), Point),
        ((1, "b"), tuple[int, str]),
        (b"\0\xff", bytes),
        (None, int | None),
        ("ü\udcff".encode("utf-8", "surrogateescape"), bytes),
    ],
)
def test_a_value_is_what_it_was(value, kind):
    assert connections.decode(connections.encode(value), kind, "rank 1") == value


@pytest.mark.parametrize(
    "content", [pickle.dumps(os.getcwd), b"", b"\x80", connections.encode({"name": 1}), b"\xc1" * 9]
)
def test_another_message_is_an_error_that_names_its_sender(content):
    with pytest.raises(ConfigError, match="rank 3 sent another message than expected"):
        connections.decode(content, Point, "rank 3")


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_a_message_comes_whole(tcp, size):
    left, right = map(Channel, tcp)
    sent = os.urandom(size)
    sending = threading.Thread(target=left.send, args=(sent,))
    sending.start()
    assert right.receive() == sent
    sending.join()


@pytest.mark.parametrize("announced", [connections.MAX_BYTES + 1, 2**63])
def test_a_length_that_no_message_has_is_refused_at_once(tcp, announced):
    left, right = tcp
    left.sendall(announced.to_bytes(8, "big"))
    with pytest.raises(ConnectionError, match=f"a message of {announced} bytes was announced"):
        Channel(right).receive()


def test_more_than_was_announced_is_refused(tcp):
    left, right = tcp
    left.sendall((2).to_bytes(8, "big") + b"abc")
    with pytest.raises(ConnectionError, match="a message of 2 bytes"):
        Channel(right).receive()


def test_a_message_that_ends_too_early_is_a_lost_rank(tcp):
    left, right = tcp
    left.sendall((20).to_bytes(8, "big") + b"abc")
    left.close()
    with pytest.raises(ConnectionError, match="it hung up"):
        Channel(right).receive()


def test_a_message_that_is_too_long_is_not_sent(tcp, monkeypatch):
    monkeypatch.setattr(connections, "MAX_BYTES", 3)
    with pytest.raises(ValueError, match="a message of 4 bytes: at most 3 are allowed"):
        Channel(tcp[0]).send(b"abcd")
