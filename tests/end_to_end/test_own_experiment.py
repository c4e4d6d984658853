"""An experiment that a user adds, by its make target: one file in conf/experiment/, and no line of Python."""

import shutil
from pathlib import Path

import pytest

from tests.helpers import ROOT
from tests.helpers.kit import make_command, needs_setup, records, run
from tests.helpers.patched import patched, rounds

pytestmark = [pytest.mark.end_to_end, needs_setup]

RANKS = """# @package _global_
description: How many ranks a node should have
experiment: my_ranks
sweep:
  ranks_per_node: 1,2
"""
MOMENTUM = """# @package _global_
description: What the momentum does to the accuracy
defaults:
  - override /model: digits_plain
  - override /dataset: digits
experiment: my_momentum
measure:
  epochs: 2
dataset:
  training_samples: 256
  validation_samples: 64
sweep:
  optimizer.momentum: 0.0,0.5
"""


@pytest.fixture
def kit(tmp_path: Path) -> Path:
    """A kit of its own conf/ and train/: ranks look for conf/ beside the code that they run."""
    folder = tmp_path / "kit"
    folder.mkdir()
    for part in ("conf", "train"):
        shutil.copytree(ROOT / part, folder / part, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "conf/experiment/my_ranks.yaml").write_text(RANKS)
    (folder / "conf/experiment/my_momentum.yaml").write_text(MOMENTUM)
    return folder


def test_a_sweep_over_ranks_per_node_is_a_curve_over_the_ranks(kit):
    short = "measure.precision_fraction=0.9 measure.budget_s=1 measure.repeats=1"
    given = ("MODELS=tiny", f"ARGS=tracking=none batch_per_rank=4 {short}")
    status, output = run(*make_command(kit, "my-ranks", *given), variables=patched(kit / "patch", rounds(6)))
    assert status == 0, output
    [made] = records(kit / "results")
    assert [(arm["swept"], arm["ranks"]) for arm in made.config["rounds"]] == [
        ({"ranks_per_node": 1}, 1),
        ({"ranks_per_node": 2}, 2),
    ]
    assert len(made.ranks) == 3  # of two rank groups
    assert "by throughput" in output
    assert "my-ranks  " in run(*make_command(kit, "help"))[1]
    drawn = {path.stem for path in (kit / "figures").glob("*.png")}
    assert {"own-my-ranks", "own-my-ranks-efficiency"} <= drawn


def test_a_sweep_over_a_momentum_is_one_axis_with_accuracies(kit):
    given = ("REPEATS=1", "ARGS=tracking=none batch_per_rank=32")
    status, output = run(*make_command(kit, "my-momentum", *given))
    assert status == 0, output
    made = records(kit / "results")
    assert [record.swept for record in made] == [{"optimizer.momentum": 0.0}, {"optimizer.momentum": 0.5}]
    assert {record.learning_rate for record in made} == {made[0].config["optimizer"]["learning_rate"]}
    assert "momentum" in output
    assert "speedup" not in output  # a momentum has no speedup
    drawn = {path.stem for path in (kit / "figures").glob("*.png")}
    assert {"own-my-momentum-accuracy", "own-my-momentum-throughput"} <= drawn
