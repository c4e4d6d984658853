import json
from pathlib import Path

import pytest

from analysis import audit
from analysis.study import Study
from tests.helpers.chrome_trace import check
from tests.helpers.drawn_figures import draw
from tests.helpers.run_records import make_record, save
from tests.helpers.studies import curve_in_rounds, strategies
from tests.helpers.timelines import launch_with_timeline


@pytest.fixture
def folder(tmp_path):
    return tmp_path / "results"


@pytest.fixture
def call(command, folder):
    """Return a function that runs a command over the records in `folder`, with figures beside it."""

    def run(*arguments, status=0):
        return command(*arguments, "--results", folder, "--out", folder.parent / "figures", status=status)

    return run


def test_json_has_parts_that_add_up(json_output, folder):
    curve_in_rounds(folder)
    document = json_output("diagnose", "weak_scaling", "--results", folder)
    [curve], [job, _] = document["curves"], document["jobs"]
    two = curve["points"][-1]
    parts_s = {name: part["value"] for name, part in two["parts_s"].items()}
    # Two nodes without allreduce take 2 x alone / 1.9, with it 2 x alone / ratio, ratio about 1.58.
    assert parts_s["slower"] == pytest.approx(parts_s["alone"] * (2 / 1.9 - 1))
    assert two["efficiency_throughput"]["value"] == pytest.approx(1.569 / 2, rel=1e-3)
    assert sum(parts_s.values()) == pytest.approx(two["measured_s"]["value"])
    assert sum(part["value"] for part in job["parts_s"].values()) == pytest.approx(job["job_s"]["value"])


def test_only_the_models_that_were_asked_for(call, folder):
    for model in ("resnet50", "vgg16"):
        curve_in_rounds(folder, model=model)
    output = call("diagnose", "weak_scaling", "--models", "vgg16").out
    assert "VGG16" in output
    assert "ResNet50" not in output
    call("diagnose", "weak_scaling", "--models", "vgg19", status=2)


def test_what_cannot_be_split_is_named_with_the_reason(call, folder):
    save(make_record("batch_sweep", swept={"batch_per_rank": 8}), folder)
    broken = folder / "weak_scaling/resnet50-rounds/00000000/r0/record.json"
    broken.parent.mkdir(parents=True)
    broken.write_text("{}")
    errors = call("diagnose", "batch_sweep", status=1).err
    assert "it varies batch_per_rank; a step is split along the number of nodes" in errors
    assert f"left out: {broken}" in errors
    errors = call("diagnose", "weak_scaling", status=2).err
    assert "no complete run of experiment 'weak_scaling' (there are: batch_sweep)" in errors


@pytest.mark.slow
def test_the_figure_of_strategies_has_a_bar_each(folder):
    strategies(folder, servers=2)
    bars, longer = draw("own-strategies-diagnosis", Study(folder).local).axes
    names = ["horovod", "mwms", "ps (asynchronous,\n+2 cores for servers)"]
    assert [tick.get_text() for tick in bars.get_xticklabels()] == names
    assert bars.get_title(loc="left") == "ResNet50, 2 nodes, 6 repeats"
    tops = [sum(bar.get_height() for bar in arm_bars) for arm_bars in zip(*bars.containers[:5], strict=True)]
    assert tops == pytest.approx([1e3 * 1.0333 * step_s for step_s in (0.5, 0.7, 0.6)], rel=1e-3)
    assert longer.get_ylabel() == "longer than\nhorovod [ms]"


def test_each_launch_with_a_timeline_has_a_table_and_a_trace(call, json_output, folder):
    for model in ("resnet50", "vgg16"):
        launch_with_timeline(folder, model)
    output = call("timeline").out
    titles = [line.partition(",")[0] for line in output.splitlines() if line.startswith("== ")]
    assert titles == ["== ResNet50", "== VGG16"]
    traces = sorted((folder.parent / "figures").iterdir())
    assert len(traces) == 2
    for path in traces:
        assert f"{path}: open it at https://ui.perfetto.dev" in output
        check(json.loads(path.read_text()))
    (launch,) = json_output("timeline", "--models", "vgg16", "--results", folder, "--out", folder.parent)
    check(json.loads(Path(launch["trace"]).read_text()))


def test_without_a_launch_it_says_how_to_make_one(call, folder):
    save(make_record(), folder)
    assert "no complete launch with a timeline; make timeline makes one" in call("timeline", status=2).err


def test_such_a_launch_is_no_scaling_point_and_has_no_finding(folder):
    save(make_record(nodes=2), folder)
    path = launch_with_timeline(folder)
    study = Study(folder)
    assert str(path) not in set(study.local["record"])
    assert study.notices == []
    assert [finding for finding in audit.record_findings(study) if finding.place == str(path)] == []
