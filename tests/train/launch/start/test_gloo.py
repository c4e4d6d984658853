"""Parts of elastic jobs. tests/end_to_end/test_faults.py tells rank 0 of hosts that go and come."""

import urllib.request

import pytest

pytest.importorskip("horovod")

from horovod.runner.common.util import codec
from horovod.runner.http.http_server import RendezvousServer

from tests.helpers.kit import TIMEOUT_S
from train.launch.start import gloo

pytestmark = pytest.mark.slow  # Horovod takes a second to load


def test_a_host_is_removed_only_after_many_probes_without_an_answer(monkeypatch):
    assert not gloo.is_answering(("127.0.0.1", 1))  # nothing listens there
    answering = {"a", "b"}
    monkeypatch.setattr(gloo, "sshd_address", lambda host: (host, 22))
    monkeypatch.setattr(gloo, "is_answering", lambda address: address[0] in answering)
    hosts = gloo.Answering({"a": 1, "b": 2})
    assert hosts.find_available_hosts_and_slots() == {"a": 1, "b": 2}
    answering.remove("b")
    for _ in range(gloo.MISSES - 1):
        assert hosts.find_available_hosts_and_slots() == {"a": 1, "b": 2}
    assert hosts.find_available_hosts_and_slots() == {"a": 1}
    answering.add("b")
    assert hosts.find_available_hosts_and_slots() == {"a": 1, "b": 2}


class Driver:
    """The part of Horovod's driver that its handler calls."""

    registered = ()

    def register_worker_server(self, *arguments):
        self.registered = arguments


def test_the_store_ignores_what_horovod_would_unpickle_and_keeps_the_rest(tmp_path):
    class Payload:
        def __reduce__(self):
            return (tmp_path / "ran").touch, ()

    driver, server = Driver(), RendezvousServer()
    port = server.start(gloo.without_pickles(driver))
    server.init([])

    def put(path, body):
        request = urllib.request.Request(f"http://127.0.0.1:{port}/{path}", body, method="PUT")
        urllib.request.urlopen(request, timeout=TIMEOUT_S).close()

    put("worker_addresses/n1:0", codec.dumps_base64(Payload(), to_ascii=False))
    put("global/0", b"address")
    assert urllib.request.urlopen(f"http://127.0.0.1:{port}/global/0", timeout=TIMEOUT_S).read() == b"address"
    server.stop()
    assert not (tmp_path / "ran").exists()
    assert driver.registered == ()
