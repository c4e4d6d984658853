import pytest

from analysis.predict import calibration
from tests.helpers.run_records import make_program, save

CURVE = "ranks,images_per_s,batch_per_rank\n1,100,32\n2,195,32\n4,380,32\n8,745,32\n"


@pytest.fixture
def csv(tmp_path):
    """Return a function that writes a table and returns its path."""

    def write(text=CURVE):
        path = tmp_path / "curve.csv"
        path.write_text(text)
        return path

    return write


def one_line(text):
    return " ".join(text.split())


def test_where_the_exchange_is_not_known_a_server_may_saturate(csv, command, json_output):
    (target,) = json_output("predict", "--file", csv(), "--to", "32")
    assert target["may_saturate"] is True
    assert target["images_per_s"]["low"] < 745
    assert "say so: EXCHANGE=allreduce" in one_line(command("predict", "--file", csv(), "--to", "32").out)
    server = command("predict", "--file", csv(), "--to", "32", "--exchange", "server")
    assert "updated by a parameter server" in one_line(server.out)


def test_what_is_wrong_is_reported_before_anything_is_learned(csv, command, monkeypatch):
    monkeypatch.setattr(calibration, "published_curves", lambda table: pytest.fail("learned from the published curves"))
    path = csv("ranks,images_per_s\n1,100\n2,fast\n")
    output = command("predict", "--file", path, status=2)
    assert f"{path}, line 3, column 'images_per_s': 'fast' is not a number" in output.out
    assert "no curve is measured on two numbers of ranks" in output.err
    command("predict", "--file", csv(), "--models", "vgg16", status=2)


@pytest.mark.slow
def test_the_figure_is_drawn(csv, command, tmp_path):
    command("predict", "--file", csv(), "--to", "64", "--draw", "--out", tmp_path / "figures")
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {f"predicted.{s}" for s in ("pdf", "png", "svg")}


def test_local_records_and_a_job(results, command, json_output):
    for nodes, step_s in ((1, 0.5), (2, 0.52), (4, 0.54), (8, 0.57)):
        results.add(nodes=nodes, step_s=step_s)
    arguments = ("--experiment", "weak-scaling", "--results", results.folder, "--to", "16", "--images", "160")
    output = one_line(command("predict", *arguments, "--price", "36").out)
    assert "with a fixed cost of 5.87 s a job" in output
    assert "cost" in output
    (row,) = json_output("predict", *arguments, "--price", "36")
    wall = row["wall_s"]["value"]
    assert wall == pytest.approx(5.87 + 160 / row["images_per_s"]["value"], abs=0.01)
    assert row["cost"]["value"] == pytest.approx(wall * 16 * 36 / 3600)


@pytest.mark.parametrize(
    ("argv", "message"),
    [
        (["--models", "resnet5"], "--models: no curve of 'resnet5'; allowed: alexnet, "),
        (["--price", "3"], "--price: of what job? allowed: together with --images"),
        (["--exchange", "server"], "--exchange: of what runs? allowed: together with --file"),
    ],
)
def test_options_that_do_not_fit_say_what_is_allowed(argv, message, command):
    assert message in command("predict", *argv, status=2).err


@pytest.mark.parametrize(("header", "model"), [("model,", "puhti fp32,"), ("", "")])
def test_no_command_is_shown_for_a_model_that_the_kit_does_not_have(csv, command, header, model):
    path = csv(f"{header}ranks,images_per_s\n" + "".join(f"{model}{n},{95 * n}\n" for n in (1, 2, 4, 8)))
    output = command("predict", "--file", path, "--to", "64", "--exchange", "allreduce").out
    assert f"To measure next, {model.strip(',')}" in output
    assert "make " not in output.partition("To measure next")[2]


def test_curves_of_several_batches_have_a_command_each(csv, command):
    rows = [f"vgg16,{n},{rate * n * 0.97**n},{batch}\n" for batch, rate in ((32, 90), (64, 99)) for n in (1, 2, 4)]
    path = csv("model,ranks,images_per_s,batch_per_rank\n" + "".join(rows))
    output = command("predict", "--file", path, "--to", "16", "--exchange", "allreduce").out
    commands = [line for line in output.splitlines() if line.startswith("    make ")]
    assert len(commands) == len(set(commands)) == 2


def test_step_times_that_a_program_does_not_have_are_not_looked_for(results, command):
    for nodes in (1, 2):
        save(make_program(nodes, 100.0 * nodes), results.folder)
    for arguments in (("diagnose", "scaling"), ("explain", "--experiment", "scaling")):
        assert "Its records have no step times" in command(*arguments, "--results", results.folder, status=2).err


@pytest.mark.parametrize(
    ("scaling", "rates", "on_8"),
    [("weak", (100.0, 190.0, 361.0), 685.9), ("strong", (100.0, 180.0, 300.0), 500.0)],
)
def test_a_program_is_predicted_in_its_unit_and_measured_by_its_own_command(
    results, command, json_output, scaling, rates, on_8
):
    """361^2 / 190, and 300^2 / 180."""
    typed = ["make", "scaling", "PROGRAM=my.yaml", "NODES=4"]
    for nodes, rate in zip((1, 2, 4), rates, strict=True):
        save(make_program(nodes, rate, scaling=scaling, typed_command=typed), results.folder)
    arguments = ("predict", "--experiment", "scaling", "--results", results.folder, "--to", "8")
    (target,) = json_output(*arguments)
    assert target["images_per_s"]["value"] == pytest.approx(on_8, rel=0.001)
    assert target["unit"] == "cells/s"
    output = command(*arguments, "--images", "1000").out
    assert "cells/s" in output
    assert not {"images/s", "batch"} & {*output.partition("Checked")[0].split()}
    assert "    make scaling PROGRAM=my.yaml NODES=8 LAUNCHER=ssh HOSTS=..." in output


def test_one_size_is_answered_with_what_is_needed(results, command):
    save(make_program(2, 100.0), results.folder)
    arguments = ("predict", "--experiment", "scaling", "--results", results.folder)
    assert "no curve on two numbers of ranks or more, which a prediction needs" in command(*arguments, status=2).err
