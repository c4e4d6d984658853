import os
import pickle
import socket
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import pytest

from train.config.checks import ConfigError
from train.transport import connections
from train.transport.connections import Address, Channel

KEY = b"k" * 64


@pytest.fixture
def listener():
    with connections.listen("127.0.0.1") as listener:
        yield listener


def listener_address(listener):
    return Address(*listener.getsockname())


@pytest.fixture
def connecting(listener):
    """Connect to the listener in a thread; return the future of the connection, which may raise an error."""
    with ThreadPoolExecutor() as pool:
        yield lambda key, rank=1: pool.submit(connections.connect, listener_address(listener), key, rank)


def test_both_ends_prove_the_secret_and_the_caller_sends_its_rank(listener, connecting):
    calling = connecting(KEY, rank=7)
    [(rank, accepted)] = connections.accept(listener, KEY)
    with closing(accepted), closing(calling.result()) as connected:
        assert rank == 7
        connected.send(b"hello")
        assert accepted.receive() == b"hello"


def test_strangers_that_send_nothing_or_have_another_secret_keep_no_rank_waiting(listener, connecting, monkeypatch):
    monkeypatch.setattr(connections, "_MAX_STRANGERS", 4)
    monkeypatch.setattr(connections, "PROOF_WITHIN_S", 60.0)  # longer than any pause of a busy machine
    silent = [socket.create_connection(listener_address(listener)) for _ in range(10)]
    stranger, calling = connecting(b"x" * 64, rank=1), connecting(KEY, rank=2)
    began = time.monotonic()
    [(rank, accepted)] = connections.accept(listener, KEY)
    assert rank == 2
    assert time.monotonic() - began < connections.PROOF_WITHIN_S
    assert isinstance(stranger.exception(), ConnectionError)
    with closing(accepted), closing(calling.result()):
        for connection in silent:
            with connection:
                while connection.recv(100):  # the nonce, and then its end
                    pass


@pytest.mark.parametrize("proof", [lambda nonce: b"m" * 32, lambda nonce: nonce], ids=["made up", "sent back"])
def test_a_listener_that_does_not_know_the_secret_is_no_rank(listener, connecting, proof):
    calling = connecting(KEY)
    accepted, _ = listener.accept()
    with accepted:
        accepted.sendall(b"n" * 32)
        accepted.sendall(proof(accepted.recv(1000)[-32:]))
        with pytest.raises(ConnectionError, match="it does not know the secret of this job"):
            calling.result()


def test_ranks_that_do_not_come_are_counted_also_where_strangers_do(listener, connecting):
    calling = connecting(KEY)
    with socket.create_connection(listener_address(listener)):
        with pytest.raises(TimeoutError, match=r"1 of 2 came within 0\.2 s"):
            connections.accept(listener, KEY, 2, 0.2)
        calling.result().close()


@pytest.mark.parametrize(
    ("interface", "hosts", "address"),
    [
        (None, ["n1", "n1"], "127.0.0.1"),
        (None, ["n1", "n2"], "10.0.0.6"),
        (None, ["no-such-host.invalid", "other.invalid"], "10.0.0.5"),  # a name has no address: any card
        ("ib0", ["n1", "n1"], "10.1.0.5"),  # as for emulated nodes, whose ranks are all on one host
    ],
)
def test_ranks_of_one_host_use_loopback_and_others_the_card_towards_them(monkeypatch, interface, hosts, address):
    address_towards = connections.placement.address_towards
    interfaces = {"127.0.0.1": "lo", "10.0.0.5": "eth0", "10.0.0.6": "eth1", "10.1.0.5": "ib0"}
    monkeypatch.setattr(connections.placement, "addresses", lambda: interfaces)
    monkeypatch.setattr(
        connections.placement, "address_towards", lambda hosts: "10.0.0.6" if "n2" in hosts else address_towards(hosts)
    )
    monkeypatch.setenv("HOROVOD_GLOO_IFACE", interface or "")
    assert connections.bind_host(hosts) == address


@pytest.fixture
def tcp():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        left = socket.create_connection(listener.getsockname())
        right, _ = listener.accept()
    with left, right:
        yield left, right


@pytest.mark.parametrize(
    "content", [pickle.dumps(os.getcwd), b"", b"\x80", connections.encode({"name": 1}), b"\xc1" * 9]
)
def test_another_message_is_an_error_that_names_its_sender(content):
    with pytest.raises(ConfigError, match="rank 3 sent another message than expected"):
        connections.decode(content, Address, "rank 3")


@pytest.fixture
def channels(tcp):
    left, right = tcp
    return Channel(left, KEY, is_caller=True), Channel(right, KEY, is_caller=False)


@pytest.mark.parametrize("size", [0, 4056, 1_000_000])
def test_messages_are_received_whole_and_in_order(channels, size):
    left, right = channels
    messages = [os.urandom(size) for _ in range(2)]
    with ThreadPoolExecutor(1) as pool:  # one thread, as in a rank: the second begins when the first has returned
        for message in messages:
            pool.submit(left.send, message)
            assert right.receive() == message
    right.send(b"thanks")
    assert left.receive() == b"thanks"


def test_a_message_that_the_other_end_would_refuse_is_not_sent(tcp, channels, monkeypatch):
    monkeypatch.setattr(connections, "MAX_BYTES", 10**6)
    with pytest.raises(ConfigError, match="this rank has 2 MB for another rank; at most 1 MB are sent at once"):
        channels[0].send(bytes(2 * 10**6))
    channels[0].send(b"a smaller one")
    assert channels[1].receive() == b"a smaller one"


@pytest.mark.parametrize(
    ("announced", "content", "problem"),
    [
        (connections.MAX_BYTES + 1, b"", f"a message of {connections.MAX_BYTES + 1} bytes was announced"),
        (2, b"a" * 35, "a message of 2 bytes"),  # more than was announced, with the code
        (20, b"a" * 51, "it hung up"),
        (3, b"abc" + b"m" * 32, "not from this rank"),
    ],
)
def test_an_impossible_message_is_an_error_at_once(tcp, channels, announced, content, problem):
    left, _ = tcp
    left.sendall(announced.to_bytes(8, "big") + content)
    if "hung up" in problem:
        left.close()
    with pytest.raises(ConnectionError, match=problem):
        channels[1].receive()


@pytest.fixture
def sent(channels, tcp):
    """The bytes of two messages of the caller."""
    for message in (b"go on", b"stop!"):
        channels[0].send(message)
    both = tcp[1].recv(1000)
    return both[: len(both) // 2], both[len(both) // 2 :]


@pytest.mark.parametrize("case", ["changed", "again", "out of order", "sent back", "of another connection"])
def test_a_message_that_another_process_sends_into_a_connection_is_refused(sent, tcp, channels, case):
    (first, second), (left, right) = sent, tcp
    receiver, to_receiver = channels[1], left
    if case == "again":
        left.sendall(first)
        assert receiver.receive() == b"go on"
    if case == "sent back":
        receiver, to_receiver = channels[0], right
    if case == "of another connection":
        receiver = Channel(right, b"another", is_caller=False)
    to_receiver.sendall({"changed": first.replace(b"go", b"no"), "out of order": second}.get(case, first))
    with pytest.raises(ConnectionError, match="a message was changed on its way, or is not from this rank"):
        receiver.receive()


def test_a_listener_that_sends_its_nonce_byte_by_byte_holds_a_rank_no_longer_than_one_that_is_silent(
    listener, connecting, monkeypatch
):
    monkeypatch.setattr(connections, "SILENCE_S", 0.2)
    calling = connecting(KEY)
    accepted, _ = listener.accept()
    ended = threading.Event()

    def drip():
        while not ended.wait(0.05):
            accepted.sendall(b"n")

    with accepted, ThreadPoolExecutor() as pool:
        dripping = pool.submit(drip)
        with pytest.raises(ConnectionError, match=r"no connection to a rank at .*: timed out"):
            calling.result()
        ended.set()
        dripping.exception()
