from dataclasses import replace

import pytest

from train import task
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.identity import values
from train.record import protocol
from train.record.protocol import Assignment

OVERRIDES = ["experiment=weak_scaling", "model=tiny", "nodes=2", "launcher=local"]


@pytest.fixture
def assignment():
    config = load([*OVERRIDES, "optimizer.momentum=0.5", "threads_per_rank=3"])
    return Assignment(values(config), "the hash", 2, {"train/a.py": "1"}, hosts_apart=True, quotas=True)


def test_a_launcher_s_task_is_read_from_the_run_folder(assignment, tmp_path):
    protocol.write_assignment(tmp_path, assignment)
    asked = task.assigned(tmp_path)
    assert (asked.config.nodes, asked.config.optimizer.momentum, asked.config.threads_per_rank) == (2, 0.5, 3)
    assert (asked.folder, asked.repeat, asked.quotas) == (tmp_path, 2, True)
    assert (asked.expected.hosts, asked.expected.config_hash) == (2, "the hash")
    assert asked.expected.launcher.source == {"train/a.py": "1"}


def test_nodes_that_share_a_machine_need_one_host(assignment, tmp_path):
    protocol.write_assignment(tmp_path, replace(assignment, hosts_apart=False, quotas=False))
    asked = task.assigned(tmp_path)
    assert (asked.expected.hosts, asked.quotas) == (1, False)


def test_a_configuration_of_other_code_is_refused(assignment, tmp_path):
    values = {**assignment.config, "optimizer": {"name": "sgd"}}
    protocol.write_assignment(tmp_path, replace(assignment, config=values))
    with pytest.raises(ConfigError, match="learning_rate"):
        task.assigned(tmp_path)


def test_by_hand_the_overrides_are_composed_and_nothing_is_expected(tmp_path, monkeypatch):
    monkeypatch.setenv("SLURM_STEP_NUM_NODES", "4")
    asked = task.composed([*OVERRIDES, f"results={tmp_path / 'new'}"])
    assert (asked.config.model.name, asked.folder, asked.quotas) == ("tiny", None, False)
    assert (asked.expected.hosts, asked.expected.launcher) == (2, None)
    assert (tmp_path / "new").is_dir()


def test_by_hand_nobody_keeps_a_timeline(tmp_path):
    with pytest.raises(ConfigError, match=r"distribution.timeline=true: needs a launcher, .*: make timeline"):
        task.composed(["experiment=timeline", "model=tiny", f"results={tmp_path}"])


def test_by_hand_there_is_nobody_to_limit_nodes(tmp_path):
    with pytest.raises(ConfigError, match=r"launcher=emulated: it needs `python -m train\.launch`"):
        task.composed(["launcher=emulated", "distribution.controller=gloo", f"results={tmp_path}"])


def test_results_that_cannot_be_written_are_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="records can be written"):
        task.composed([*OVERRIDES, f"results={tmp_path / 'file/below'}"])
