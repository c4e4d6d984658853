import sys

import pytest
from rich.console import Console

from tests.helpers.launches import planned
from train.config.checks import ConfigError
from train.launch import __main__ as launcher
from train.launch.plan.options import Options

ASKED = ("experiment=weak_scaling", "model=tiny", "nodes=2", "tracking=none")


def test_options_and_overrides_may_be_mixed(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.launch", "nodes=2", "--only", "tiny-nodes2", "--dry-run", "model=tiny"])
    assert launcher.read_options() == Options(("nodes=2", "model=tiny"), dry_run=True, only="tiny-nodes2")


def test_points_can_be_chosen_by_their_names():
    plan = planned(*ASKED)
    assert [point.name for point in launcher.chosen_points(plan, "tiny-nodes2").points] == ["tiny-nodes2"]
    assert launcher.chosen_points(plan, None) == plan
    both = launcher.chosen_points(plan, "tiny-nodes2,tiny-nodes1")
    assert [point.name for point in both.points] == ["tiny-nodes1", "tiny-nodes2"]
    with pytest.raises(ConfigError, match="--only tiny-nodes9: no such point; allowed are tiny-nodes1, tiny-nodes2"):
        launcher.chosen_points(plan, "tiny-nodes2,tiny-nodes9")


def test_a_dry_run_shows_the_points_and_their_commands(tmp_path, capsys):
    overrides = (*ASKED, f"results={tmp_path}", "launcher=local")
    assert launcher.launch(Options(overrides, dry_run=True), Console(soft_wrap=True, width=120)) == 0
    shown = capsys.readouterr().out
    assert "2 points, 2 launches: every repeat is a separate launch" in shown
    assert "1 curve in rounds, 1 launch or more each" in shown
    assert "until each ratio is known to ± 5 % or 420 s are over" in shown
    assert "time left: known after the first launch of a single point" in shown
    assert "train.launch.start.gloo --ranks 2 --hosts localhost:2 --" in shown
    assert list(tmp_path.iterdir()) == []


def test_a_dry_run_mounts_the_folder_that_a_run_would(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)  # a relative path would be the name of a volume to Docker
    overrides = (*ASKED, "results=results", "launcher=local", "container=docker")
    assert launcher.launch(Options(overrides, dry_run=True, only="tiny-nodes2"), Console(soft_wrap=True)) == 0
    command = capsys.readouterr().out.splitlines()[-1]
    assert f"--mount type=bind,source={tmp_path}/results/weak_scaling/tiny-nodes2/" in command


def test_points_too_large_for_the_memory_are_left_out_and_the_status_says_so(tmp_path, monkeypatch, capsys):
    from train.launch.launchers.local import Local

    overrides = (*ASKED, f"results={tmp_path}", "launcher=local")
    monkeypatch.setattr(Local, "free_bytes", lambda self, config: 900_000_000)
    plan = planned(*overrides)
    fitting = launcher.without_too_large(plan, Console(soft_wrap=True))
    assert [point.name for point in fitting.points] == ["tiny-nodes1"]
    assert "tiny-nodes2 is left out: 2 ranks of about 0.5 GiB need" in capsys.readouterr().out
    monkeypatch.setattr(Local, "free_bytes", lambda self, config: 10)
    assert launcher.launch(Options(overrides), Console(soft_wrap=True)) == 1
    assert list(tmp_path.iterdir()) == []


def test_a_wrong_name_ends_with_status_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train.launch", "experiment=weak_scaling", "model=resnet5"])
    assert launcher.main() == 2
    assert "model=resnet5: there is no conf/model/resnet5.yaml; allowed are" in capsys.readouterr().err
