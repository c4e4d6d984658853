import json
from pathlib import Path

import pytest

from analysis import audit
from analysis.__main__ import main
from analysis.study import Study
from tests.helpers.chrome_trace import check
from tests.helpers.own_records import make_record, save
from tests.helpers.timelines import launch_with_timeline


@pytest.fixture
def timeline(capsys, tmp_path):
    """Runs the command over `tmp_path / "results"`; its exit status, and what it prints."""

    def run(*arguments):
        values = ["--results", str(tmp_path / "results"), "--out", str(tmp_path / "figures")]
        status = main(["timeline", *arguments, *values])
        return status, capsys.readouterr()

    return run


def test_each_launch_has_a_table_and_a_file(timeline, tmp_path):
    for model in ("resnet50", "vgg16"):
        launch_with_timeline(tmp_path / "results", model)
    status, printed = timeline()
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
    _, printed = timeline("--models", "vgg16")
    assert "ResNet50" not in printed.out


def test_json_names_the_trace(json_output, tmp_path):
    launch_with_timeline(tmp_path / "results")
    (launch,) = json_output("timeline", "--results", tmp_path / "results", "--out", tmp_path / "figures")
    check(json.loads(Path(launch["trace"]).read_text()))


def test_without_a_launch_it_says_how_to_make_one(timeline, tmp_path):
    save(make_record(), tmp_path / "results")
    status, printed = timeline()
    assert status == 2
    assert "no complete launch with a timeline; make timeline makes one" in printed.err


def test_such_a_launch_is_no_scaling_point_and_has_no_finding(tmp_path):
    save(make_record(nodes=2), tmp_path)
    path = launch_with_timeline(tmp_path)
    local = Study(tmp_path)
    assert str(path) not in set(local.local["record"])
    assert local.notices == []
    assert [finding for finding in audit.record_findings(local) if finding.place == str(path)] == []
