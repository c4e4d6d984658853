import threading
import time
from collections.abc import Callable

from record import protocol
from record.protocol import LinkRate
from train.rank.quota_gate import QuotaGate


def at_the_gate(rank: threading.Thread, has_come: Callable[[], bool]) -> None:
    """Start the rank, and return when it waits at the gate."""
    rank.start()
    while not has_come():
        time.sleep(0.01)
    rank.join(0.05)
    assert rank.is_alive()


def test_a_rank_waits_until_the_launcher_has_limited_the_nodes(tmp_path):
    gate = QuotaGate(tmp_path, 1)
    rank = threading.Thread(target=gate.wait_for_quota)
    at_the_gate(rank, protocol.ready_path(tmp_path, 1).exists)
    assert not protocol.ready_path(tmp_path, 0).exists()
    protocol.limited_path(tmp_path).touch()
    rank.join(240)
    assert not rank.is_alive()
    gate.release()
    assert protocol.measured_path(tmp_path, 1).exists()


def test_rank_0_waits_until_the_launcher_has_set_another_rate_of_the_links(tmp_path):
    gate = QuotaGate(tmp_path, 0)
    rank = threading.Thread(target=gate.use_link, args=(100.0,))
    at_the_gate(rank, protocol.link_wanted_path(tmp_path).exists)
    request = protocol.read_link_rate(protocol.link_wanted_path(tmp_path))
    assert request == LinkRate(1, 100.0)
    protocol.write_link_rate(protocol.link_set_path(tmp_path), request)
    rank.join(240)
    assert not rank.is_alive()
    gate.use_link(100.0)  # the links have this rate
    assert protocol.read_link_rate(protocol.link_wanted_path(tmp_path)).number == 1


def test_without_quotas_the_gate_is_open(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    QuotaGate().wait_for_quota()
    QuotaGate().use_link(100.0)
    QuotaGate().release()
    assert list(tmp_path.iterdir()) == []
