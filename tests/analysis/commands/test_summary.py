import json

import pytest

from analysis import labels
from analysis.__main__ import main
from tests.helpers.own_records import QUOTA, make_record, make_rounds, save
from tests.helpers.own_studies import curve_in_rounds
from train.record.record import Failure

ARMS = {"swept": {"model": "resnet50"}, "arm_keys": ["distribution.allreduce"]}


def test_what_is_assumed_is_reported_below_table_and_figures(results, capsys):
    results.add(experiment="fruit", assumed=["model.name", "weights"])
    results.add(experiment="weak_scaling")
    line = "fruit, assumed, not stated by the report: model.name, weights"
    assert labels.assumptions(results.table()) == [line]
    assert line in labels.figure_note(results.table())
    assert main(["summary", "fruit", "--results", str(results.folder)]) == 0
    assert line in capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_the_command_prints_the_table_and_draws_only_its_figures(results, capsys):
    for allreduce in (True, False):
        results.add(
            experiment="overhead",
            nodes=2,
            role="point" if allreduce else "base",
            **{"distribution.allreduce": allreduce, **ARMS},
        )
    results.add(experiment="weak_scaling", nodes=1)
    results.add(experiment="overhead", nodes=1, failure=Failure("rank 0 was killed"))
    out = results.folder.parent / "figures"
    assert main(["summary", "overhead", "--draw", "--results", str(results.folder), "--out", str(out)]) == 0
    printed = capsys.readouterr()
    assert "overhead on AMD EPYC 9B45, 4 cores" in printed.out
    assert "rank 0 was killed" in printed.err
    assert sorted(path.name for path in out.glob("*.png")) == ["own-overhead.png"]
    assert str(out / "own-overhead") in printed.out


@pytest.mark.parametrize("experiment", ["weak", "nothing"])
def test_an_experiment_without_runs_is_reported(results, experiment, capsys):
    results.add(experiment="weak_scaling")
    assert main(["summary", experiment, "--results", str(results.folder)]) == 1
    assert f"no complete run of {experiment}" in capsys.readouterr().err


def test_what_is_emulated_is_reported_with_the_size_of_the_images(results, capsys):
    results.add(nodes=1, model="alexnet", **{"model.image_size": 67}, **QUOTA)
    assert main(["summary", "weak_scaling", "--results", str(results.folder)]) == 0
    printed = capsys.readouterr().out
    assert "emulated: 20 % of a core a node" in printed
    assert "images: AlexNet 67 x 67" in printed.splitlines()


ONE = "one launch: the interval covers rounds within it (repeatability), not other launches"


@pytest.mark.slow
@pytest.mark.parametrize(("launches", "printed"), [(1, True), (2, False)])
def test_one_launch_in_rounds_is_reported(results, launches, printed, capsys):
    for repeat in range(launches):
        save(make_rounds([(0.5, 0.8, 0.55)] * 6, repeat=repeat), results.folder)
    assert main(["summary", "weak_scaling", "--results", str(results.folder)]) == 0
    assert (ONE in capsys.readouterr().out.splitlines()) is printed


def test_json_is_all_that_is_printed(results, capsys):
    curve_in_rounds(results.folder)
    results.add(nodes=4, failure=Failure("rank 0 was killed"))
    assert main(["summary", "weak_scaling", "--format", "json", "--results", str(results.folder)]) == 0
    printed = capsys.readouterr()
    assert [point["nodes"] for point in json.loads(printed.out)] == [1, 2, 2]
    assert "rank 0 was killed" in printed.err


@pytest.mark.slow
def test_the_brief_table_is_followed_by_the_largest_loss(results, capsys):
    curve_in_rounds(results.folder)
    assert main(["summary", "weak_scaling", "--brief", "--results", str(results.folder)]) == 0
    printed = capsys.readouterr().out
    assert "largest loss (what to try first: make diagnose EXPERIMENT=weak_scaling)" in printed
    assert "ResNet50 on 2 nodes: " in printed


@pytest.fixture
def tuned(results, tmp_path):
    """Runs the command over a contest in which one arm is faster; returns its status."""
    drift = [0.5, 0.6, 0.55, 0.7, 0.5, 0.52]
    for arm, factor, cycle in (("as-configured", 1.0, 20.0), ("cycle-5ms", 0.8, 5.0)):
        for repeat, step_s in enumerate(drift):
            run = make_record(
                experiment="tune", nodes=2, step_s=factor * step_s, repeat=repeat, arm=arm, swept={},
                role="base" if factor == 1 else "point", arm_keys=["distribution.cycle_time_ms"],
                **{"distribution.cycle_time_ms": cycle},
            )  # fmt: skip
            save(run, results.folder)

    def command(*more):
        return main(["tune", "--results", str(results.folder), "--conf", str(tmp_path), *more])

    return command


def test_the_winner_is_written_only_on_request_and_never_over_a_file(tuned, tmp_path, capsys):
    assert tuned() == 0
    assert "cycle-5ms (distribution.cycle_time_ms=5.0) is 1.25 times as fast" in capsys.readouterr().out
    assert not (tmp_path / "system").exists()
    assert tuned("--write", "mine") == 0
    assert "Use it with SYSTEM=mine" in capsys.readouterr().out
    assert "cycle_time_ms: 5.0" in (tmp_path / "system/mine.yaml").read_text()
    assert tuned("--write", "mine") == 2
    assert "mine.yaml: it exists" in capsys.readouterr().err


def test_a_name_that_cannot_be_written_is_refused_before_anything_is_measured(tuned, tmp_path, capsys):
    assert tuned("--dry-run", "--write", "mine") == 0
    assert capsys.readouterr() == ("", "")
    for dry_run in ([], ["--dry-run"]):
        assert tuned(*dry_run, "--write", "../mine") == 2
        result = capsys.readouterr()
        assert (result.out, "a name of letters, digits and _ is needed (WRITE=)" in result.err) == ("", True)
    (tmp_path / "system").mkdir()
    (tmp_path / "system/mine.yaml").touch()
    assert tuned("--dry-run", "--write", "mine") == 2
    assert "mine.yaml: it exists, and is not replaced" in capsys.readouterr().err


def test_a_program_reads_the_ranking(tuned, json_output, results):
    [contest] = json_output("tune", "--results", results.folder)["contests"]
    assert [(arm["arm"], arm["verdict"]) for arm in contest["arms"]] == [
        ("cycle-5ms", "faster"),
        ("as-configured", "base"),
    ]


def test_without_a_contest_it_says_so(tuned, capsys):
    assert tuned("--models", "vgg16") == 1
    assert "no complete runs of the base and of another arm of tune" in capsys.readouterr().err
