from horovod.runner.http.http_server import RendezvousHTTPServer

from train.rank import rendezvous_server


def test_as_many_ranks_may_come_at_once_as_there_are(monkeypatch):
    monkeypatch.setattr(RendezvousHTTPServer, "request_queue_size", 5)
    rendezvous_server.allow_for(2)
    assert RendezvousHTTPServer.request_queue_size == 5  # Horovod's own is enough
    rendezvous_server.allow_for(300)
    assert RendezvousHTTPServer.request_queue_size == 300
