import pytest

from analysis import plots, summary, tables
from analysis.__main__ import main
from train.record.record import Epoch, Failure


def test_a_table_worked_by_hand(results):
    # 8 images in 0.5 s: 16 images/s; 16 images in 0.625 s: 25.6 images/s, 1.6x on two nodes
    results.add(nodes=1, step_s=0.5)
    results.add(nodes=2, step_s=0.625)
    one, two = summary.rows(tables.own(results.folder).table).to_dict("records")
    assert (one["model"], one["nodes"], one["n"], one["images/s"]) == ("ResNet50", 1, 1, "16")
    assert two["images/s"] == "25.6"
    assert two["speedup (efficiency)\nby throughput"] == "1.60x (0.80)"
    # wall: 0.4 + 6 + 6 steps x 0.5 = 9.4 s for 56 images; 10.15 s for 112
    by_wall_time = (112 / 10.15) / (56 / 9.4)
    assert two["speedup (efficiency)\nby wall time"] == f"{by_wall_time:.2f}x ({by_wall_time / 2:.2f})"


def test_repeats_get_their_interval(results):
    for repeat, step in enumerate((0.4, 0.5)):
        results.add(step_s=step, repeat=repeat)
    (row,) = summary.rows(tables.own(results.folder).table).to_dict("records")
    # 20 and 16: mean 18, s / sqrt(2) = 2, t(0.975, 1) = 12.7
    assert (row["n"], row["images/s"]) == (2, "18 ± 25")
    assert "speedup (efficiency)\nby throughput" not in row


def test_arms_and_shared_cores_are_noted(results):
    from tests.helpers.own_records import make_record, save

    for backend, allreduce in (("none", False), ("horovod", True), ("horovod", False)):
        arm = {"backend": backend, "allreduce": allreduce, "controller": "gloo"}
        results.add(experiment="overhead", distribution=arm)
    crowded = make_record(experiment="overhead", nodes=2)
    crowded.cores_shared = True
    save(crowded, results.folder)
    notes = summary.rows(tables.own(results.folder).table)["note"].tolist()
    assert sorted(notes) == ["", "shared cores: no measure of scaling", "without Horovod", "without allreduce"]


def test_the_error_of_the_age_is_that_after_the_last_epoch(results):
    # Two repeats end at 6 and 8 years: mean 7, s / sqrt(2) = 1, t(0.975, 1) = 12.7
    for repeat, last in enumerate((6.0, 8.0)):
        epochs = [Epoch(n, 10, 2.0, 1.2, 0.6, 1.0, 0.1, error) for n, error in ((1, 20.0), (2, last))]
        results.add(experiment="imdb_wiki", epochs=epochs, repeat=repeat)
    (row,) = summary.rows(tables.own(results.folder).table).to_dict("records")
    assert row["mean absolute\nerror [classes]"] == "7 ± 13"


def test_what_is_assumed_stands_below_table_and_figures(results, capsys):
    results.add(experiment="fruit", assumed=["model.name", "weights"])
    results.add(experiment="weak_scaling")
    line = "fruit, assumed, not stated by the report: model.name, weights"
    assert plots.assumed(tables.own(results.folder).table) == [line]
    assert line in plots.provenance(tables.own(results.folder).table)
    assert main(["summary", "fruit", "--results", str(results.folder)]) == 0
    assert line in capsys.readouterr().out.splitlines()


@pytest.mark.slow
def test_the_command_prints_the_table_and_draws_only_its_figures(results, capsys):
    results.add(experiment="overhead", nodes=2)
    results.add(experiment="weak_scaling", nodes=1)
    results.add(experiment="overhead", nodes=1, failure=Failure("rank 0 was killed"))
    out = results.folder.parent / "figures"
    assert main(["summary", "overhead", "--draw", "--results", str(results.folder), "--out", str(out)]) == 0
    said = capsys.readouterr()
    assert "overhead on AMD EPYC 9B45, 4 cores" in said.out
    assert "rank 0 was killed" in said.err
    assert sorted(path.name for path in out.glob("*.png")) == ["own-overhead.png"]
    assert str(out / "own-overhead") in said.out


@pytest.mark.parametrize("experiment", ["weak", "nothing"])
def test_an_experiment_without_runs_is_said(results, experiment, capsys):
    results.add(experiment="weak_scaling")
    assert main(["summary", experiment, "--results", str(results.folder)]) == 1
    assert f"no complete run of {experiment}" in capsys.readouterr().err
