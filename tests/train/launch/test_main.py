import sys

from train.launch import __main__ as launcher
from train.launch.plan.make import Options


def test_options_and_overrides_may_be_mixed(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.launch", "nodes=2", "--only", "tiny-nodes2", "--dry-run", "model=tiny"])
    assert launcher.read_options() == Options(("nodes=2", "model=tiny"), dry_run=True, only="tiny-nodes2")


def test_a_wrong_name_ends_with_status_2(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["train.launch", "experiment=weak_scaling", "model=resnet5"])
    assert launcher.main() == 2
    assert "model=resnet5: there is no conf/model/resnet5.yaml; allowed are" in capsys.readouterr().err
