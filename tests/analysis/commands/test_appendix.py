import json
import tarfile

import pytest

from analysis import appendix as contents
from analysis.__main__ import main
from analysis.commands import appendix
from analysis.figures import registry
from tests.helpers import ROOT
from tests.helpers.own_studies import curve_in_rounds


def test_the_appendix_is_current():
    assert (ROOT / "ARTIFACT.md").read_text() == appendix.text(), "run: make appendix"


@pytest.mark.parametrize("style", ["sc", "eurosys"])
def test_each_style_has_the_claims_that_experiments_decide(style):
    text = appendix.text(style)
    assert f"C5 to C{len(contents.read().claims)} are conclusions of the" in text
    assert "| C1 | `weak-scaling-pays` |" in text
    assert "| C52 | `004-averaging-loses-precision` |" in text
    assert "| C5 |" not in text


def test_the_style_of_eurosys_has_every_experiment():
    data = contents.read()
    text = appendix.text("eurosys")
    for number in range(len(data.experiments)):
        assert f"**Experiment (E{number + 1})**" in text
    assert "11; needs two cores" in text  # measured minutes of E1
    assert "analysis/speedups.py:curve" in text


@pytest.mark.slow
def test_minutes_of_an_evaluation_are_kept(tmp_path, monkeypatch):
    monkeypatch.setattr(contents, "MINUTES", tmp_path / "minutes.json")
    (tmp_path / "minutes.json").write_text("{}\n")
    measured = {"make x": {"minutes": 2.5, "date": "2026-11-25", "cpu": "a", "cores": 2, "commit": "0" * 40}}
    (tmp_path / "evaluation.json").write_text(json.dumps({"rows": [], "minutes": measured}))
    assert main(["appendix", "--file", str(tmp_path / "evaluation.json"), "--out", str(tmp_path / "a.md")]) == 0
    assert json.loads((tmp_path / "minutes.json").read_text()) == measured


def test_a_file_that_is_no_evaluation_is_named(tmp_path, capsys):
    (tmp_path / "x.json").write_text("{}")
    assert main(["appendix", "--file", str(tmp_path / "x.json"), "--out", str(tmp_path / "a.md")]) == 2
    assert "x.json: not a file that `make evaluate` wrote" in capsys.readouterr().err
    assert not (tmp_path / "a.md").exists()


@pytest.fixture(scope="module")
def own_figures_alone():
    """Leave out the figures of the reports, which take long to draw and know of no record."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "figures", lambda local: {one.id: one for one in registry.experiment_figures(local)})
        yield


@pytest.fixture(scope="module")
def archive(tmp_path_factory, own_figures_alone):
    """The archive of an author who measured weak scaling: speedups of 1.5 to 1.65."""
    folder = tmp_path_factory.mktemp("author")
    curve_in_rounds(folder / "results")
    assert main(["bundle", "--results", str(folder / "results"), "--out", str(folder / "bundle.tar.gz")]) == 0
    return folder / "bundle.tar.gz"


def evaluated(archive, results, out):
    status = main(["evaluate", str(archive), "--results", str(results), "--out", str(out / "evaluation.md")])
    document = json.loads((out / "evaluation.json").read_text())
    return status, {row["id"]: row for row in document["rows"]}, document


@pytest.mark.slow
def test_a_reviewer_who_measured_the_same_reproduces_it(archive, tmp_path):
    curve_in_rounds(tmp_path / "results")
    status, rows, document = evaluated(archive, tmp_path / "results", tmp_path)
    assert status == 0
    assert document["differing"] == []
    assert {step["command"] for step in document["steps"]} >= {"make tables", "make audit", "make claims"}
    assert all(step["outcome"] == "reproduced" for step in document["steps"]), document["steps"]
    assert rows["weak-scaling-pays"]["outcome"] == "reproduced"
    assert "1.577 (1.271 to 1.957)" in rows["weak-scaling-pays"]["numbers"]
    assert rows["strong-scaling-loses"]["outcome"] == "not run"
    assert rows["000-vgg19-best"]["outcome"] == "reproduced"
    assert document["minutes"]["make tables"]["minutes"] >= 0
    text = (tmp_path / "evaluation.md").read_text()
    assert "78 claims: 4 not run, 74 reproduced, 0 not reproduced" in text
    assert "measured here (B)" in text


@pytest.mark.slow
def test_another_result_and_a_damaged_archive_are_found(archive, tmp_path, capsys):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path)
    (tmp_path / "bundle/claims.json").write_text("[]")
    assert main(["evaluate", str(tmp_path / "bundle"), "--out", str(tmp_path / "evaluation.md")]) == 1
    assert "differs: claims.json" in capsys.readouterr().out
    assert not (tmp_path / "evaluation.md").exists()


@pytest.mark.slow
def test_an_experiment_that_is_none_is_named(archive, tmp_path, capsys):
    assert main(["evaluate", str(archive), "--only", "E99"]) == 2
    assert "ONLY=E99: no such experiment; allowed are E1 to E21" in capsys.readouterr().err
