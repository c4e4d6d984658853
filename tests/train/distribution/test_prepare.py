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


def test_a_timeline_is_in_the_folder_of_the_record_and_nothing_that_is_timed_has_one(horovod_variables, tmp_path):
    user_variables = {TIMELINE: "/home/me/mine.json", "HOROVOD_TIMELINE_MARK_CYCLES": "1"}
    for experiment in ("weak_scaling", "diagnose", "tune"):
        prepared = horovod_variables(f"experiment={experiment}", "nodes=2", **user_variables)
        assert not user_variables.keys() & prepared.keys()
    result = horovod_variables("experiment=timeline", "model=tiny", **user_variables)
    assert result[TIMELINE] == str(tmp_path / "horovod-timeline.json")


def test_horovods_default_fusion_threshold_is_not_set_and_ranks_wait_for_imports(horovod_variables):
    name = "HOROVOD_FUSION_THRESHOLD"  # Horovod crashes when it joins ranks again with both this and the cycle time set
    variables = horovod_variables("experiment=weak_scaling", "nodes=2", **{name: "7"})
    assert name not in variables
    assert float(variables["HOROVOD_CYCLE_TIME"]) == 20
    assert float(horovod_variables("distribution=horovod_stock")["HOROVOD_CYCLE_TIME"]) == 1
    assert horovod_variables("nodes=2", "distribution.fusion_threshold_bytes=1000")[name] == "1000"
    timeout = "HOROVOD_GLOO_TIMEOUT_SECONDS"  # by default 30 s, also for any exchange
    assert int(variables[timeout]) == 300
    assert horovod_variables("nodes=2", **{timeout: "900"})[timeout] == "900"
