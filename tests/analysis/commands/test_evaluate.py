import json
import tarfile

import pytest

from analysis.__main__ import main
from analysis.figures import registry
from tests.helpers.own_studies import curve_in_rounds

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", autouse=True)
def own_figures_alone():
    """Leave out the figures of the reports, which take long to draw and know of no record."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "figures", lambda local: {one.id: one for one in registry.experiment_figures(local)})
        yield


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The archive of an author who measured weak scaling: speedups of 1.5 to 1.65."""
    folder = tmp_path_factory.mktemp("author")
    curve_in_rounds(folder / "results")
    assert main(["bundle", "--results", str(folder / "results"), "--out", str(folder / "bundle.tar.gz")]) == 0
    return folder / "bundle.tar.gz"


def evaluated(archive, results, out):
    status = main(["evaluate", str(archive), "--results", str(results), "--out", str(out / "evaluation.md")])
    document = json.loads((out / "evaluation.json").read_text())
    return status, {row["id"]: row for row in document["rows"]}, document


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


def test_another_result_and_a_damaged_archive_are_found(archive, tmp_path, capsys):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path)
    (tmp_path / "bundle/claims.json").write_text("[]")
    assert main(["evaluate", str(tmp_path / "bundle"), "--out", str(tmp_path / "evaluation.md")]) == 1
    assert "differs: claims.json" in capsys.readouterr().out
    assert not (tmp_path / "evaluation.md").exists()


def test_an_experiment_that_is_none_is_named(archive, tmp_path, capsys):
    assert main(["evaluate", str(archive), "--only", "E99"]) == 2
    assert "ONLY=E99: no such experiment; allowed are E1 to E21" in capsys.readouterr().err
