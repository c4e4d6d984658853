import os

import pytest

from train import distribution
from train.config.compose import load

TIMELINE = "HOROVOD_TIMELINE"


@pytest.fixture
def prepared(monkeypatch, tmp_path):
    """Prepares a configuration; the variables that Horovod will read."""

    def prepare(*overrides: str, **given: str) -> dict[str, str]:
        with monkeypatch.context() as patched:
            patched.setattr(os, "environ", dict(given))
            distribution.prepare(load(list(overrides)), tmp_path)
            return dict(os.environ)

    return prepare


def test_nothing_that_is_timed_has_a_timeline_whatever_the_user_has_set(prepared):
    own = {TIMELINE: "/home/me/mine.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1"}
    for experiment in ("weak_scaling", "diagnose", "tune"):
        assert not own.keys() & prepared(f"experiment={experiment}", "nodes=2", **own).keys()


def test_a_timeline_is_beside_the_record(prepared, tmp_path):
    found = prepared("experiment=timeline", "model=tiny", **{TIMELINE: "/home/me/mine.json"})
    assert found[TIMELINE] == str(tmp_path / "horovod-timeline.json")
