import pytest

from analysis.__main__ import main
from analysis.predict import calibration

learns = pytest.mark.slow  # from the published curves, for seconds
CURVE = "ranks,images_per_s,batch_per_rank\n1,100,32\n2,195,32\n4,380,32\n8,745,32\n"


@pytest.fixture
def csv(tmp_path):
    path = tmp_path / "curve.csv"
    path.write_text(CURVE)
    return str(path)


@learns
def test_a_file_as_json(csv, json_output):
    at_32, at_64, at_512 = json_output("predict", "--file", csv, "--to", "32,64,512", "--exchange", "allreduce")
    assert (at_32["ranks"], at_64["ranks"], at_512["ranks"]) == (32, 64, 512)
    assert 600 < at_32["images_per_s"]["low"] < 745  # two doublings beyond: nothing excludes that it stays there
    assert 2500 < at_32["images_per_s"]["value"] < at_32["images_per_s"]["high"] < 3400
    assert (at_64["supported"], at_512["supported"]) == (True, False)


@learns
def test_where_the_exchange_is_not_known_a_server_may_saturate(csv, capsys, json_output):
    (target,) = json_output("predict", "--file", csv, "--to", "32")
    assert target["may_saturate"] is True
    assert target["images_per_s"]["low"] < 745
    assert main(["predict", "--file", csv, "--to", "32"]) == 0
    assert "say so: EXCHANGE=allreduce" in " ".join(capsys.readouterr().out.split())
    assert main(["predict", "--file", csv, "--to", "32", "--exchange", "server"]) == 1
    assert "updated by a parameter server" in " ".join(capsys.readouterr().out.split())
    assert main(["predict", "--exchange", "server"]) == 2
    assert "--exchange: of what runs? allowed: together with --file" in capsys.readouterr().err


def test_what_is_wrong_is_reported_before_anything_is_learned(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr(calibration, "published_curves", lambda table: pytest.fail("learned from the published curves"))
    path = tmp_path / "curve.csv"
    path.write_text("ranks,images_per_s\n1,100\n2,fast\n")
    assert main(["predict", "--file", str(path)]) == 2
    shown = capsys.readouterr()
    assert f"{path}, line 3, column 'images_per_s': 'fast' is no number; the row is left out" in shown.out
    assert "no curve is measured on two numbers of ranks" in shown.err
    path.write_text(CURVE)
    assert main(["predict", "--file", str(path), "--models", "vgg16"]) == 2


@learns
def test_a_file_in_words_with_what_to_measure_next(csv, capsys):
    assert main(["predict", "--file", csv, "--to", "64", "--images", "1000000", "--epochs", "3"]) == 0
    printed = capsys.readouterr().out
    assert "Checked on the 31 published" in printed
    assert "To measure next, batch 32: " in printed
    assert "make weak-scaling NODES=" in printed
    assert "wall time" in printed
    assert max(map(len, printed.splitlines())) <= 100


@learns
def test_the_published_curves_are_the_default(json_output):
    result = json_output("predict")
    assert len(result) == 3 * 57
    assert {row["ranks"] for row in result} == {16, 64, 256}
    assert any(row["supported"] for row in result if row["ranks"] == 256)
    assert all(row["why"] for row in result if not row["supported"])


@learns
def test_local_records_and_a_job(results, capsys, json_output):
    for nodes, step_s in ((1, 0.5), (2, 0.52), (4, 0.54), (8, 0.57)):
        results.add(nodes=nodes, step_s=step_s)
    asked = ["--experiment", "weak-scaling", "--results", str(results.folder), "--to", "16", "--images", "160"]
    assert main(["predict", *asked, "--price", "36"]) == 0
    printed = " ".join(capsys.readouterr().out.split())
    assert "with a fixed cost of 5.87 s a job" in printed
    assert "cost" in printed
    (row,) = json_output("predict", *asked, "--price", "36")
    wall = row["wall_s"]["value"]
    assert wall == pytest.approx(5.87 + 160 / row["images_per_s"]["value"], abs=0.01)
    assert row["cost"]["value"] == pytest.approx(wall * 16 * 36 / 3600)


@pytest.mark.parametrize(
    ("argv", "printed"),
    [
        (["--to", "16,x"], "'16,x' given; allowed: whole numbers of at least 1"),
        (["--to", "0"], "'0' given; allowed"),
        (["--images", "-1"], "'-1' given; allowed: numbers above 0"),
        pytest.param(
            ["--models", "resnet5"], "--models: no curve of 'resnet5'; allowed: alexnet, ", marks=pytest.mark.slow
        ),
        (["--price", "3"], "--price: of what job? allowed: together with --images"),
    ],
)
def test_wrong_options_say_what_is_allowed(argv, printed, capsys):
    try:
        status = main(["predict", *argv])
    except SystemExit as stop:
        status = stop.code
    assert status == 2
    assert printed in capsys.readouterr().err


@learns
def test_nothing_predicted_is_not_a_success(tmp_path, capsys):
    (tmp_path / "two.csv").write_text("ranks,images_per_s\n1,100\n2,195\n")
    assert main(["predict", "--file", str(tmp_path / "two.csv"), "--to", "16"]) == 1
    assert "2 numbers of ranks measured, at least 3 are needed" in " ".join(capsys.readouterr().out.split())


@learns
def test_the_figure_is_drawn_on_request(csv, tmp_path, capsys):
    assert main(["predict", "--file", csv, "--to", "64", "--draw", "--out", str(tmp_path / "figures")]) == 0
    assert {path.name for path in (tmp_path / "figures").iterdir()} == {f"predicted.{s}" for s in ("pdf", "png", "svg")}


@learns
def test_no_command_is_shown_for_a_model_that_the_kit_does_not_have(tmp_path, capsys):
    path = tmp_path / "curve.csv"
    path.write_text("model,ranks,images_per_s\n" + "".join(f"puhti fp32,{n},{95 * n}\n" for n in (1, 2, 4, 8)))
    assert main(["predict", "--file", str(path), "--to", "64", "--exchange", "allreduce"]) == 0
    shown = capsys.readouterr().out
    assert "To measure next, puhti fp32" in shown
    assert "make " not in shown.partition("To measure next")[2]


@learns
def test_curves_of_several_batches_have_a_command_each(tmp_path, capsys):
    path = tmp_path / "curve.csv"
    path.write_text(
        "ranks,images_per_s,batch_per_rank\n"
        + "".join(f"{n},{rate * n * 0.97**n},{batch}\n" for batch, rate in ((32, 90), (64, 99)) for n in (1, 2, 4))
    )
    main(["predict", "--file", str(path), "--to", "16", "--exchange", "allreduce"])
    commands = [line for line in capsys.readouterr().out.splitlines() if line.startswith("    make ")]
    assert len(commands) == len(set(commands)) == 2
