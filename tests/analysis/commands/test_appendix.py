import json

import pytest

from analysis.__main__ import main
from analysis.appendix import contents
from analysis.commands import appendix
from tests.helpers import ROOT


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
