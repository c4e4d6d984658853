from dataclasses import replace

import pytest

from record import protocol
from record.protocol import Assignment
from train import task
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.identity import values

OVERRIDES = ["experiment=weak_scaling", "model=tiny", "nodes=2", "launcher=local"]


@pytest.fixture
def assignment():
    config = load([*OVERRIDES, "optimizer.momentum=0.5", "threads_per_rank=3"])
    return Assignment(values(config), "the hash", 2, {"train/a.py": "1"}, hosts_apart=True, quotas=True)


def test_a_launcher_s_task_is_read_from_the_run_folder(assignment, tmp_path):
    protocol.write_assignment(tmp_path, assignment)
    result = task.assigned(tmp_path)
    assert (result.config.nodes, result.config.optimizer.momentum, result.config.threads_per_rank) == (2, 0.5, 3)
    assert (result.folder, result.repeat, result.quotas) == (tmp_path, 2, True)
    assert (result.expected.hosts, result.expected.config_hash) == (2, "the hash")
    assert result.expected.launcher.source == {"train/a.py": "1"}
    protocol.write_assignment(tmp_path, replace(assignment, hosts_apart=False, quotas=False))  # nodes of one machine
    result = task.assigned(tmp_path)
    assert (result.expected.hosts, result.quotas) == (1, False)


def test_a_configuration_of_other_code_is_refused(assignment, tmp_path):
    values = {**assignment.config, "optimizer": {"name": "sgd"}}
    protocol.write_assignment(tmp_path, replace(assignment, config=values))
    with pytest.raises(ConfigError, match="learning_rate"):
        task.assigned(tmp_path)


def test_by_hand_the_overrides_are_composed_and_nothing_is_expected(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_STEP_NUM_NODES", "4")
    result = task.composed([*OVERRIDES, f"results={tmp_path / 'new'}"])
    assert (result.config.model.name, result.folder, result.quotas) == ("tiny", None, False)
    assert (result.expected.hosts, result.expected.launcher) == (2, None)


@pytest.mark.parametrize(
    ("overrides", "problem"),
    [
        (["experiment=timeline", "model=tiny"], "distribution.timeline=true: needs a launcher, .*: make timeline"),
        (["launcher=emulated"], r"launcher=emulated: it needs `python -m train\.launch`"),
        (["results=/proc/none"], "results=/proc/none: .*give a folder for records"),
    ],
)
def test_a_run_that_needs_a_launcher_is_refused_by_hand_at_once(overrides, problem, tmp_path):
    with pytest.raises(ConfigError, match=problem):
        task.composed([f"results={tmp_path}", "distribution.controller=gloo", *overrides])
