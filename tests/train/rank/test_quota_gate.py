import threading

from train.rank.quota_gate import QuotaGate
from train.record import protocol


def test_a_rank_waits_until_the_launcher_has_limited_the_nodes(tmp_path):
    gate = QuotaGate(tmp_path, 1)
    rank = threading.Thread(target=gate.wait_for_quota)
    rank.start()
    rank.join(0.05)
    assert rank.is_alive()
    assert protocol.ready_path(tmp_path, 1).exists()
    assert not protocol.ready_path(tmp_path, 0).exists()
    protocol.limited_path(tmp_path).touch()
    rank.join(5)
    assert not rank.is_alive()
    gate.release()
    assert protocol.measured_path(tmp_path, 1).exists()


def test_without_quotas_the_gate_is_open(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    QuotaGate().wait_for_quota()
    QuotaGate().release()
    assert list(tmp_path.iterdir()) == []
