import math
import re
from pathlib import Path

import pytest

from analysis import metrics
from analysis.experiments.arms import link_rates
from analysis.study import Study
from tests.helpers.own_records import NO_ALLREDUCE, Arm, make_rounds, save


def emulated(link: float | None) -> dict:
    system = {"name": "laptop", "cores_per_node": 1, "cpus_per_node": 0.4, "link_mbit_per_s": link}
    launcher = {"name": "emulated", "flat_within_fraction": 0.1}
    model = {"name": "alexnet", "image_size": 67, "parameters": 1_000_000}
    return {"experiment": "network_sweep", "system": system, "launcher": launcher, "model": "alexnet"} | {
        "nodes": 4, "batch_per_rank": 8, "of_model": model,
        "swept": {"model": "alexnet", "system.link_mbit_per_s": link},
    }  # fmt: skip


def test_the_shortest_time_of_a_ring_allreduce():
    # 2 x 3/4 x 4 MB = 6 MB = 48 Mbit, at 100 Mbit/s
    assert metrics.ring_allreduce_min_s(1_000_000, 4, 100) == pytest.approx(0.48)
    assert metrics.ring_allreduce_min_s(1_000_000, 1, 100) == 0
    assert metrics.ring_allreduce_min_s(1_000_000, 4, math.nan) == 0


def test_exposed_communication_is_what_a_step_takes_longer_than_the_control(results):
    for link, step_s in ((100, 0.9), (1000, 0.5), (None, 0.4)):
        results.add(step_s=step_s, **emulated(link))
    results.add(step_s=0.3, **emulated(None), **NO_ALLREDUCE)
    results.add(step_s=0.3, **emulated(None) | {"nodes": 1}, **NO_ALLREDUCE)
    points = link_rates(results.table())
    assert points["link"].tolist() == ["100", "1000", "no limit"]
    assert points["exposed_s"].tolist() == pytest.approx([0.6, 0.2, 0.1])
    assert points["share"].tolist() == pytest.approx([1 / 3, 0.6, 0.75])
    assert points["min_s"].tolist() == pytest.approx([0.48, 0.048, 0])
    assert points["series"].nunique() == 1
    assert not points["invalid"].any()


def test_in_rounds_a_link_is_compared_with_the_control_of_its_round(results):
    """A machine that drifts by half: the differences are 0.6, 0.7, ... 1.1 s, and all shares are 1/3."""
    arms = (Arm(4, allreduce=False, batch_per_rank=8), Arm(4, batch_per_rank=8))
    rounds = [(step_s, 3 * step_s) for step_s in (0.30, 0.35, 0.40, 0.45, 0.50, 0.55)]
    at_link = emulated(100)
    names = {"without-allreduce": None, "with-allreduce": 100}
    run = make_rounds(rounds, arms, **at_link, arm_keys=["distribution.allreduce"])
    for arm, (name, link) in zip(run.config["rounds"], names.items(), strict=True):
        swept = {"model": "alexnet", "system.link_mbit_per_s": link}
        arm |= {"arm": name, "link_mbit_per_s": link, "swept": swept}
    save(run, results.folder)
    [point] = link_rates(results.table()).to_dict("records")
    assert (point["link"], point["n"]) == ("100", 6)
    assert [point[f"share{end}"] for end in ("", "_low", "_high")] == pytest.approx([1 / 3] * 3)
    assert [point[f"exposed_s{end}"] for end in ("", "_low", "_high")] == pytest.approx([0.85, 0.6, 1.1])


def test_a_model_without_a_control_is_left_out(results):
    results.add(step_s=0.9, **emulated(100))
    assert link_rates(results.table()).empty


def _numbers(table, **values) -> dict[str, float]:
    rows = table[table["kind"].isin(["measured", "stated"]) & table["run"].ne("primary source")]
    for column, value in values.items():
        rows = rows[rows[column].eq(value)]
    return rows.groupby("model")["value"].mean().to_dict()


def _published_settings() -> dict[str, tuple[dict, dict]]:
    """The step time [s] and the efficiency of each model, by setting, from the published numbers."""
    table = Study().published

    def numbers_of_001(scaling: str, device: str) -> tuple[dict, dict]:
        speedups = _numbers(table, report="001", experiment=scaling, device=device, quantity="speedup_throughput")
        weak = {"report": "001", "experiment": "weak_scaling", "device": device, "quantity": "images_per_s"}
        at_8 = _numbers(table, **weak, nodes=8)
        gpu = {model: at_8[model] / speedup for model, speedup in speedups.items()}  # one node: not printed
        one = _numbers(table, **weak, nodes=1) if device == "cpu" else gpu
        return {model: 128 / rate for model, rate in one.items()}, {m: s / 8 for m, s in speedups.items()}

    def numbers_of_ranks(batch: int, per_rank: bool, **values) -> tuple[dict, dict]:
        quantity = "images_per_s_per_rank" if per_rank else "images_per_s"
        one, eight = (_numbers(table, quantity=quantity, ranks=n, batch_per_rank=batch, **values) for n in (1, 8))
        shares = {m: rate / one[m] / (1 if per_rank else 8) for m, rate in eight.items()}
        return {m: batch / rate for m, rate in one.items()}, shares

    return {
        "001, weak, CPU, 8 nodes": numbers_of_001("weak_scaling", "cpu"),
        "001, strong, CPU, 8 nodes": (
            numbers_of_001("weak_scaling", "cpu")[0],
            numbers_of_001("strong_scaling", "cpu")[1],
        ),
        "001, weak, GPU, 8 nodes": numbers_of_001("weak_scaling", "gpu"),
        "000, GPU, 8 ranks": numbers_of_ranks(64, True, report="000"),
        "003, K80, batch 64, 8 GPUs": numbers_of_ranks(64, False, report="003", gpu="K80", dataset="synthetic"),
        "003, P100, batch 64, 8 GPUs": numbers_of_ranks(64, False, report="003", gpu="P100", dataset="synthetic"),
    }


@pytest.mark.slow
def test_the_page_says_what_the_published_numbers_give():
    root = Path(__file__).parents[3]
    published, setting, checked = _published_settings(), "", 0
    page = (root / "docs" / "emulation.md").read_text().split("## Which orders")[1]
    for line in page.splitlines():
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        if len(cells) != 6 or cells[1] in ("model", "---"):
            continue
        setting = cells[0] or setting
        conf = (root / "conf" / "model" / f"{cells[1]}.yaml").read_text()
        parameters = int(re.search(r"^parameters: (\d+)", conf, re.M)[1])
        step_s, efficiency = (numbers[cells[1]] for numbers in published[setting])
        computed = [parameters / 1e6, step_s, 1e9 * step_s / parameters, efficiency]
        assert cells[2:] == [f"{computed[0]:.1f}", f"{computed[1]:.2f}", f"{computed[2]:.0f}", f"{computed[3]:.2f}"]
        checked += 1
    assert checked == 16
