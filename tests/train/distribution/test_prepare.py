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
            distribution.prepare(load(list(overrides)), tmp_path, None)
            return dict(os.environ)

    return prepare


def test_nothing_that_is_timed_has_a_timeline_whatever_the_user_has_set(prepared):
    own = {TIMELINE: "/home/me/mine.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1"}
    for experiment in ("weak_scaling", "diagnose", "tune"):
        assert not own.keys() & prepared(f"experiment={experiment}", "nodes=2", **own).keys()


def test_a_timeline_is_beside_the_record(prepared, tmp_path):
    result = prepared("experiment=timeline", "model=tiny", **{TIMELINE: "/home/me/mine.json"})
    assert result[TIMELINE] == str(tmp_path / "horovod-timeline.json")


def test_ranks_wait_for_those_that_still_import_tensorflow(prepared):
    name = "HOROVOD_GLOO_TIMEOUT_SECONDS"  # without it 30 s, also of any exchange: an arm of a round may take longer
    assert int(prepared("experiment=weak_scaling", "nodes=2")[name]) == 300
    assert prepared("experiment=weak_scaling", "nodes=2", **{name: "900"})[name] == "900"


def test_horovods_default_fusion_threshold_is_not_set(prepared):
    name = "HOROVOD_FUSION_THRESHOLD"  # told both this and the cycle time, it crashes when ranks meet a second time
    own = prepared("experiment=weak_scaling", "nodes=2", **{name: "7"})
    assert name not in own
    assert float(own["HOROVOD_CYCLE_TIME"]) == 20
    assert float(prepared("distribution=horovod_stock")["HOROVOD_CYCLE_TIME"]) == 1
    assert prepared("nodes=2", "distribution.fusion_threshold_bytes=1000")[name] == "1000"
