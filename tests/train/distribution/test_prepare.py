import os

import pytest

from train import distribution
from train.config.compose import load

TIMELINE = "HOROVOD_TIMELINE"


@pytest.fixture
def horovod_variables(monkeypatch, tmp_path):
    """Prepare a configuration; return the environment variables that Horovod reads then."""

    def prepare(*overrides: str, **variables: str) -> dict[str, str]:
        with monkeypatch.context() as patched:
            patched.setattr(os, "environ", dict(variables))
            distribution.prepare(load(list(overrides)), tmp_path, None)
            return dict(os.environ)

    return prepare


def test_nothing_that_is_timed_has_a_timeline_whatever_the_user_has_set(horovod_variables):
    user_variables = {TIMELINE: "/home/me/mine.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1"}
    for experiment in ("weak_scaling", "diagnose", "tune"):
        prepared = horovod_variables(f"experiment={experiment}", "nodes=2", **user_variables)
        assert not user_variables.keys() & prepared.keys()


def test_a_timeline_is_in_the_folder_of_the_record(horovod_variables, tmp_path):
    result = horovod_variables("experiment=timeline", "model=tiny", **{TIMELINE: "/home/me/mine.json"})
    assert result[TIMELINE] == str(tmp_path / "horovod-timeline.json")


def test_ranks_wait_for_those_that_still_import_tensorflow(horovod_variables):
    name = "HOROVOD_GLOO_TIMEOUT_SECONDS"  # by default 30 s, also for any exchange: an arm of a round may take longer
    assert int(horovod_variables("experiment=weak_scaling", "nodes=2")[name]) == 300
    assert horovod_variables("experiment=weak_scaling", "nodes=2", **{name: "900"})[name] == "900"


def test_horovods_default_fusion_threshold_is_not_set(horovod_variables):
    name = "HOROVOD_FUSION_THRESHOLD"  # Horovod crashes when it joins ranks again with both this and the cycle time set
    variables = horovod_variables("experiment=weak_scaling", "nodes=2", **{name: "7"})
    assert name not in variables
    assert float(variables["HOROVOD_CYCLE_TIME"]) == 20
    assert float(horovod_variables("distribution=horovod_stock")["HOROVOD_CYCLE_TIME"]) == 1
    assert horovod_variables("nodes=2", "distribution.fusion_threshold_bytes=1000")[name] == "1000"
