import threading

from train.rank import quota_gate
from train.rank.quota_gate import NO_LIMITS, Limits


def test_a_rank_waits_until_the_launcher_has_set_the_limits(tmp_path):
    rank = threading.Thread(target=Limits(tmp_path, 1).begin)
    rank.start()
    rank.join(0.05)
    assert rank.is_alive()
    assert quota_gate.asks(tmp_path, 1).exists()
    assert not quota_gate.asks(tmp_path, 0).exists()
    quota_gate.granted(tmp_path).touch()
    rank.join(5)
    assert not rank.is_alive()
    Limits(tmp_path, 1).end()
    assert quota_gate.done(tmp_path, 1).exists()


def test_without_limits_nothing_is_asked_for(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    NO_LIMITS.begin()
    NO_LIMITS.end()
    assert list(tmp_path.iterdir()) == []
