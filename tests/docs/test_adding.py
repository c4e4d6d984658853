"""The model and the experiments of docs/adding.md, as printed on the page, added to a copy of the kit."""

import re
import shutil
from pathlib import Path

import pytest
import yaml

from tests.helpers import ROOT
from tests.helpers.kit import make_command, needs_setup, records, run
from tests.helpers.launch_plans import plan_points
from tests.helpers.patched_ranks import patch_ranks, rounds
from train.config import compose

pytestmark = pytest.mark.slow

_, MODEL, _, EXPERIMENT, PROGRAM, _ = (ROOT / "docs/adding.md").read_text().split("\n## Your own ")
# Two whole files, then lines to add to the second one.
*FILES, ARMS = re.findall(r"```yaml\n(.*?)```", EXPERIMENT, re.DOTALL)
MOMENTA = [f"momentum{value}-seed{seed}" for value in ("0", "0.5", "0.9") for seed in (0, 1, 2)]


@pytest.fixture
def conf(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of conf/ with the files of the page, from which this process composes."""
    folder = Path(shutil.copytree(ROOT / "conf", tmp_path / "conf"))
    for text in FILES:
        (folder / f"experiment/{yaml.safe_load(text)['experiment']}.yaml").write_text(text)
    monkeypatch.setattr(compose, "CONF", folder)
    return folder


def points(experiment: str, *overrides: str) -> dict[str, list[int | None]]:
    """Return the ranks, batch per rank and global batch of each point by name."""
    planned = plan_points("launcher=local", "tracking=none", f"experiment={experiment}", *overrides)
    configs = {point.name: point.config for point in planned}
    return {name: [config.ranks, config.batch_per_rank, config.global_batch] for name, config in configs.items()}


@pytest.mark.usefixtures("conf")
def test_a_sweep_over_ranks_per_node():
    batches = {1: [1, 4, 4], 2: [2, 4, 8], 4: [4, 4, 16]}
    alone = "measure.design=launches"
    assert points("ranks_on_a_node", alone) == {
        f"{model}-ranks_per_node{ranks}": batches[ranks] for model in ("resnet50", "googlenet") for ranks in (1, 2, 4)
    }
    # Points that do not fit into memory are left out; eight ranks of the tiny model fit into any memory.
    two_nodes = points("ranks_on_a_node", "nodes=2", "model=tiny", alone)
    assert [ranks for ranks, *_ in two_nodes.values()] == [2, 4, 8]


def test_a_sweep_over_the_momentum_and_arms_that_double_its_points(conf, monkeypatch):
    assert points("momentum", "nodes=2") == {name: [2, 32, 64] for name in MOMENTA}
    others = points("momentum", "optimizer.momentum=0.8,0.95")
    assert list(others) == [f"momentum{value}-seed{seed}" for value in ("0.8", "0.95") for seed in (0, 1, 2)]
    monkeypatch.setattr(compose, "CONF", with_arms := shutil.copytree(conf, conf.with_name("with_arms")))
    with (with_arms / "experiment/momentum.yaml").open("a") as file:
        file.write(ARMS)
    arms = {"constant-batch-per-rank": [2, 32, 64], "constant-global-batch": [2, 16, 32]}
    expected = {f"{name}-{arm}": sizes for name in MOMENTA for arm, sizes in arms.items()}
    assert points("momentum", "nodes=2") == expected


def test_a_program_is_an_experiment(conf):
    (text,) = re.findall(r"```yaml\n(.*?)```", PROGRAM, re.DOTALL)
    (conf / "experiment/mine.yaml").write_text(text)
    assert points("mine", "nodes=2") == {"nodes1": [1, 32, 32], "nodes2": [2, 32, 64]}


@pytest.mark.end_to_end
@pytest.mark.on_change_of("docs/adding.md", "train/models/", "train/make.py", "Makefile")
@needs_setup
def test_the_model_is_measured_in_the_experiment(conf):
    kit = conf.parent
    shutil.copytree(ROOT / "train", kit / "train")
    (code,), (values,) = (re.findall(rf"```{language}\n(.*?)```", MODEL, re.DOTALL) for language in ("python", "yaml"))
    (kit / "train/models/mymodel.py").write_text(code)
    (kit / "conf/model/mymodel.yaml").write_text(values)
    short = "measure.precision_fraction=0.9 measure.budget_s=1 measure.repeats=1"
    arguments = ("MODELS=mymodel", f"ARGS=tracking=none ranks_per_node=1,2 {short}")
    command = make_command(kit, "ranks-on-a-node", *arguments)
    status, output = run(*command, variables=patch_ranks(kit / "patch", rounds(6)))
    assert status == 0, output
    [record] = records(kit / "results")
    assert record.config["model"] == yaml.safe_load(values) | {"train_layers": "all"}
    arms = [(arm["swept"]["ranks_per_node"], arm["ranks"], arm["batch_per_rank"]) for arm in record.config["rounds"]]
    assert arms == [(1, 1, 4), (2, 2, 4)]
    assert len(record.ranks) == 3  # of two rank groups
    # 27 x 32, 288 x 64 and 576 x 128 weights of convolutions, scale and offset of 224 filters, 129 x 1000 of the logits
    assert record.work.gradient_bytes == 4 * (864 + 18_432 + 73_728 + 2 * 224 + 129_000)
    assert "mymodel" in output
    assert "by throughput" in output
    assert "ranks-on-a-node  " in run(*make_command(kit, "help", "ALL=1"))[1]
    assert {"own-ranks-on-a-node", "own-ranks-on-a-node-efficiency"} <= {
        path.stem for path in (kit / "figures").glob("*.png")
    }
