import json
import math
from pathlib import Path

import pytest

from analysis import audit
from analysis.__main__ import main
from analysis.study import Study
from tests.helpers.chrome_trace import check
from tests.helpers.drawn_figures import drawn
from tests.helpers.own_records import make_record, save
from tests.helpers.own_studies import curve_in_rounds, strategies
from tests.helpers.timelines import launch_with_timeline


@pytest.fixture
def call(capsys, tmp_path):
    """Runs a command over records in `tmp_path / "results"`; its exit status, and what it prints."""

    def run(*arguments):
        status = main([*arguments, "--results", str(tmp_path / "results"), "--out", str(tmp_path / "figures")])
        return status, capsys.readouterr()

    return run


def test_json_has_the_parts_with_intervals_and_the_largest_loss(json_output, tmp_path):
    curve_in_rounds(tmp_path / "results")
    document = json_output("diagnose", "weak_scaling", "--results", tmp_path / "results")
    [curve] = document["curves"]
    one, two = curve["points"]
    # Two nodes without allreduce take 2 x alone / 1.9, with it 2 x alone / ratio, ratio about 1.58.
    assert set(one["parts_s"]) == {"alone", "rest"}
    assert set(two["parts_s"]) == {"alone", "slower", "waiting", "exchange", "rest"}
    total = sum(part["value"] for part in two["parts_s"].values())
    assert total == pytest.approx(two["measured_s"]["value"])
    slower, alone = two["parts_s"]["slower"], two["parts_s"]["alone"]
    assert slower["value"] == pytest.approx(alone["value"] * (2 / 1.9 - 1))
    assert (slower["level"], slower["n"]) == (0.95, 12)
    assert two["efficiency_throughput"]["value"] == pytest.approx(math.sqrt(1.56 * 1.595) / 2)
    assert two["efficiency_without"]["exchange"]["value"] == pytest.approx(1.9 / 2)
    assert curve["largest_loss"] == "exchange"
    assert curve["slowest_rank"]["certain"] is False
    [job, _] = document["jobs"]
    assert job["job_s"]["value"] == pytest.approx(sum(part["value"] for part in job["parts_s"].values()))


@pytest.mark.slow
def test_the_figure_is_drawn(call, tmp_path):
    curve_in_rounds(tmp_path / "results")
    status, printed = call("diagnose", "weak-scaling", "--draw")
    assert status == 0
    assert "the largest loss is exposed exchange" in printed.out
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {
        f"own-weak-scaling-diagnosis.{kind}" for kind in ("pdf", "png", "svg")
    }


def test_only_the_models_that_were_asked_for(call, tmp_path):
    for model in ("resnet50", "vgg16"):
        curve_in_rounds(tmp_path / "results", model=model)
    _, printed = call("diagnose", "weak_scaling", "--models", "vgg16")
    assert "VGG16" in printed.out
    assert "ResNet50" not in printed.out
    assert call("diagnose", "weak_scaling", "--models", "vgg19")[0] == 2


def test_without_records_of_the_experiment_it_names_those_that_are_there(call, tmp_path):
    curve_in_rounds(tmp_path / "results")
    status, printed = call("diagnose", "strong_scaling")
    assert status == 2
    assert "no complete run of experiment 'strong_scaling' (there are: weak_scaling)" in printed.err


def test_a_record_that_is_left_out_is_named(call, tmp_path):
    broken = tmp_path / "results/weak_scaling/resnet50-rounds/00000000/r0/record.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{}")
    status, printed = call("diagnose", "weak_scaling")
    assert status == 2
    assert f"left out: {broken}" in printed.err


def test_a_single_number_of_nodes_cannot_be_split(call, tmp_path):
    save(make_record("batch_sweep", swept={"batch_per_rank": 8}), tmp_path / "results")
    status, printed = call("diagnose", "batch_sweep")
    assert status == 1
    assert "it varies batch_per_rank; a step is split along the number of nodes" in printed.err


def test_json_has_the_arms_beside_their_base(json_output, tmp_path):
    strategies(tmp_path / "results")
    document = json_output("diagnose", "strategies", "--results", tmp_path / "results")
    [compared] = document["comparisons"]
    assert (compared["base"], compared["nodes"]) == ("horovod", 2)
    [mwms] = compared["others"]
    assert (mwms["arm"], mwms["differs"], mwms["reasons"]) == ("mwms", True, ["exchange"])
    parts_s = [part["value"] for part in mwms["parts_longer_s"].values()]
    assert mwms["longer_s"]["value"] == pytest.approx(sum(parts_s))


def test_strategies_are_compared_part_by_part(call, tmp_path):
    strategies(tmp_path / "results")
    status, printed = call("diagnose", "strategies")
    assert status == 0
    text = " ".join(printed.out.split())
    assert "== ResNet50 on AMD EPYC 9B45, 4 cores: 2 nodes, batch 8; 2 arms, launched in turn" in text
    # 0.2 s longer, of which 0.01 s is slower computing; times the drift, 0.9 to 1.2, with a mean of 1.033
    assert "mwms: a step takes 207 (180 to 240) ms longer than with horovod. Most of it: exposed exchange" in text
    assert "the largest loss" not in text
    job_lines = [line.split()[:2] for line in printed.out.splitlines() if line.startswith("ResNet50")]
    assert job_lines == [["ResNet50", "one-rank-alone"], ["ResNet50", "horovod"], ["ResNet50", "mwms"]]


@pytest.mark.slow
def test_the_figure_of_strategies_has_a_bar_each(call, tmp_path):
    strategies(tmp_path / "results", servers=2)
    assert call("diagnose", "strategies", "--draw")[0] == 0
    assert (tmp_path / "figures/own-strategies-diagnosis.png").exists()
    bars, longer = drawn("own-strategies-diagnosis", Study(tmp_path / "results").local).axes
    names = ["horovod", "mwms", "ps (asynchronous,\n+2 cores for servers)"]
    assert [tick.get_text() for tick in bars.get_xticklabels()] == names
    assert bars.get_title(loc="left") == "ResNet50, 2 nodes, 6 repeats"
    tops = [sum(bar.get_height() for bar in arm_bars) for arm_bars in zip(*bars.containers[:5], strict=True)]
    assert tops == pytest.approx([1e3 * 1.0333 * step_s for step_s in (0.5, 0.7, 0.6)], rel=1e-3)
    assert longer.get_ylabel() == "longer than\nhorovod [ms]"


def test_each_launch_has_a_table_and_a_file(call, tmp_path):
    for model in ("resnet50", "vgg16"):
        launch_with_timeline(tmp_path / "results", model)
    status, printed = call("timeline")
    assert status == 0
    assert [line[:12] for line in printed.out.splitlines() if line.startswith("== ")] == [
        "== ResNet50,",
        "== VGG16, 2 ",
    ]
    written = sorted((tmp_path / "figures").iterdir())
    assert len(written) == 2
    for path in written:
        assert f"{path}: open it at https://ui.perfetto.dev" in printed.out
        check(json.loads(path.read_text()))
    _, printed = call("timeline", "--models", "vgg16")
    assert "ResNet50" not in printed.out


def test_json_names_the_trace(json_output, tmp_path):
    launch_with_timeline(tmp_path / "results")
    (launch,) = json_output("timeline", "--results", tmp_path / "results", "--out", tmp_path / "figures")
    check(json.loads(Path(launch["trace"]).read_text()))


def test_without_a_launch_it_says_how_to_make_one(call, tmp_path):
    save(make_record(), tmp_path / "results")
    status, printed = call("timeline")
    assert status == 2
    assert "no complete launch with a timeline; make timeline makes one" in printed.err


def test_such_a_launch_is_no_scaling_point_and_has_no_finding(tmp_path):
    save(make_record(nodes=2), tmp_path)
    path = launch_with_timeline(tmp_path)
    local = Study(tmp_path)
    assert str(path) not in set(local.local["record"])
    assert local.notices == []
    assert [finding for finding in audit.record_findings(local) if finding.place == str(path)] == []
