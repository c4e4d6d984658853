import urllib.request

import psutil
from horovod.runner.http.http_server import RendezvousHTTPServer

from train.transport import rendezvous_server


def test_as_many_ranks_may_come_at_once_as_there_are(monkeypatch):
    monkeypatch.setattr(RendezvousHTTPServer, "request_queue_size", 5)
    monkeypatch.setattr(RendezvousHTTPServer, "server_bind", RendezvousHTTPServer.server_bind)
    rendezvous_server.prepare_server(2, "127.0.0.1")
    assert RendezvousHTTPServer.request_queue_size == 5  # Horovod's own is enough
    rendezvous_server.prepare_server(300, "127.0.0.1")
    assert RendezvousHTTPServer.request_queue_size == 300


def test_a_server_of_its_own_has_no_rank_and_ends_when_its_input_does(monkeypatch):
    monkeypatch.setenv("HOROVOD_RANK", "0")
    server, port = rendezvous_server.start(2, "127.0.0.1")
    assert "HOROVOD_RANK" not in psutil.Process(server.pid).environ()
    [listener] = psutil.Process(server.pid).net_connections()
    assert listener.laddr == ("127.0.0.1", port)
    address = f"http://localhost:{port}/global/0"
    urllib.request.urlopen(urllib.request.Request(address, b"here", method="PUT"), timeout=10)
    assert urllib.request.urlopen(address, timeout=10).read() == b"here"
    server.stdin.close()
    assert server.wait(10) == 0
