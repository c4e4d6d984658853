import pytest

pytest.importorskip("horovod")

from train.launch.start import elastic

pytestmark = pytest.mark.slow  # Horovod takes a second to load


def test_a_host_is_removed_only_after_many_probes_without_an_answer(monkeypatch):
    answering = {"a", "b"}
    monkeypatch.setattr(elastic, "_sshd_address", lambda host: (host, 22))
    monkeypatch.setattr(elastic, "_answers", lambda address: address[0] in answering)
    found = elastic.Answering({"a": 1, "b": 2})
    assert found.find_available_hosts_and_slots() == {"a": 1, "b": 2}
    answering.remove("b")
    for _ in range(elastic._MISSES - 1):
        assert found.find_available_hosts_and_slots() == {"a": 1, "b": 2}
    assert found.find_available_hosts_and_slots() == {"a": 1}
    answering.add("b")
    assert found.find_available_hosts_and_slots() == {"a": 1, "b": 2}


def test_an_address_where_nothing_listens_does_not_answer():
    assert not elastic._answers(("127.0.0.1", 1))
