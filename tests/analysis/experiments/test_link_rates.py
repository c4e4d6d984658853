import math
import re

import pytest

from analysis.experiments.arms import link_rates
from analysis.study import Study
from tests.helpers import ROOT
from tests.helpers.run_records import NO_ALLREDUCE, Arm, make_rounds, save
from tests.helpers.studies import with_link


def test_exposed_communication_is_what_a_step_takes_longer_than_the_control(results):
    for link, step_s in ((100, 0.9), (1000, 0.5), (None, 0.4)):
        results.add(step_s=step_s, **with_link(link))
    assert link_rates(results.table()).empty  # a model without a control is left out
    for nodes in (4, 1):
        results.add(step_s=0.3, **with_link(None, nodes), **NO_ALLREDUCE)
    points = link_rates(results.table())
    assert points["link_mbit_per_s"].tolist() == pytest.approx([100, 1000, math.nan], nan_ok=True)
    assert points["exposed_s"].tolist() == pytest.approx([0.6, 0.2, 0.1])
    assert points["share"].tolist() == pytest.approx([1 / 3, 0.6, 0.75])
    assert points["min_s"].tolist() == pytest.approx([0.48, 0.048, 0])
    assert points["series"].nunique() == 1
    assert not points["invalid"].any()


def test_in_rounds_a_link_is_compared_with_the_control_of_its_round(results):
    """A machine that drifts by half: the differences are 0.6, 0.7, ... 1.1 s, and all shares are 1/3."""
    arms = (Arm(4, allreduce=False, batch_per_rank=8), Arm(4, batch_per_rank=8))
    rounds = [(step_s, 3 * step_s) for step_s in (0.30, 0.35, 0.40, 0.45, 0.50, 0.55)]
    run = make_rounds(rounds, arms, **with_link(100), arm_keys=["distribution.allreduce"])
    names = {"without-allreduce": None, "with-allreduce": 100}
    for arm, (name, link) in zip(run.config["rounds"], names.items(), strict=True):
        arm |= {"arm": name, "link_mbit_per_s": link, "swept": with_link(link)["swept"]}
    save(run, results.folder)
    [point] = link_rates(results.table()).to_dict("records")
    assert (point["link_mbit_per_s"], point["n"]) == (100, 6)
    assert [point[f"share{end}"] for end in ("", "_low", "_high")] == pytest.approx([1 / 3] * 3)
    assert [point[f"exposed_s{end}"] for end in ("", "_low", "_high")] == pytest.approx([0.8367, 0.6, 1.1], abs=1e-4)


def published(quantity, **values):
    """Return the mean of a published quantity by model, over the rows with these values."""
    rows = Study().published
    rows = rows[rows["kind"].isin(["measured", "stated"]) & rows["run"].ne("primary source")]
    for column, value in {"quantity": quantity, **values}.items():
        rows = rows[rows[column].eq(value)]
    return rows.groupby("model")["value"].mean()


def node_values(scaling, device):
    """Return the step [s] on one node and the efficiency on eight in report 001. It prints no GPU rate of one node."""
    at = {"report": "001", "device": device}
    speedup = published("speedup_throughput", experiment=scaling, **at)
    rate = published("images_per_s", experiment="weak_scaling", nodes=1 if device == "cpu" else 8, **at)
    return 128 / (rate if device == "cpu" else rate / speedup), speedup / 8


def rank_values(quantity, **values):
    """Return the step [s] on one rank and the efficiency on eight, with batch 64."""
    one, eight = (published(quantity, ranks=n, batch_per_rank=64, **values) for n in (1, 8))
    return 64 / one, eight / one / (8 if quantity == "images_per_s" else 1)


@pytest.mark.slow
def test_the_page_says_what_the_published_numbers_give():
    numbers = {
        "001, weak, CPU, 8 nodes": node_values("weak_scaling", "cpu"),
        "001, strong, CPU, 8 nodes": node_values("strong_scaling", "cpu"),
        "001, weak, GPU, 8 nodes": node_values("weak_scaling", "gpu"),
        "000, GPU, 8 ranks": rank_values("images_per_s_per_rank", report="000"),
        "003, K80, batch 64, 8 GPUs": rank_values("images_per_s", report="003", gpu="K80", dataset="synthetic"),
        "003, P100, batch 64, 8 GPUs": rank_values("images_per_s", report="003", gpu="P100", dataset="synthetic"),
    }
    page = (ROOT / "docs/emulation.md").read_text().split("## Which orders")[1]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in page.splitlines() if line[:1] == "|"][2:]
    assert len(rows) == 16
    setting = ""
    for first, model, *cells in rows:
        setting = first or setting
        conf = (ROOT / f"conf/model/{model}.yaml").read_text()
        parameters = int(re.search(r"^parameters: (\d+)", conf, re.M)[1])
        step_s, efficiency = (values[model] for values in numbers[setting])
        expected = [parameters / 1e6, step_s, 1e9 * step_s / parameters, efficiency]
        assert cells == [f"{expected[0]:.1f}", f"{expected[1]:.2f}", f"{expected[2]:.0f}", f"{expected[3]:.2f}"]
