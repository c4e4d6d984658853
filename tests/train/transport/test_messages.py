import os
import pickle
import socket
import threading
from dataclasses import dataclass

import pytest

from train.config.checks import ConfigError
from train.transport import messages
from train.transport.messages import Channel


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
    assert messages.decode(messages.encode(value), kind, "rank 1") == value


@pytest.mark.parametrize("content", [pickle.dumps(os.getcwd), b"", b"\x80", messages.encode({"name": 1}), b"\xc1" * 9])
def test_another_message_is_an_error_that_names_its_sender(content):
    with pytest.raises(ConfigError, match="rank 3 sent another message than expected"):
        messages.decode(content, Point, "rank 3")


@pytest.mark.parametrize("size", [0, 1, 1_000_000])
def test_a_message_comes_whole(tcp, size):
    left, right = map(Channel, tcp)
    sent = os.urandom(size)
    sending = threading.Thread(target=left.send, args=(sent,))
    sending.start()
    assert right.receive() == sent
    sending.join()


@pytest.mark.parametrize("announced", [messages.MAX_BYTES + 1, 2**63])
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
    monkeypatch.setattr(messages, "MAX_BYTES", 3)
    with pytest.raises(ValueError, match="a message of 4 bytes: at most 3 are allowed"):
        Channel(tcp[0]).send(b"abcd")
