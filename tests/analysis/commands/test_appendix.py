import json
import shutil
import tarfile
from contextlib import suppress

import pytest

from analysis import appendix as contents
from analysis.__main__ import main
from analysis.commands import appendix
from analysis.figures import registry
from analysis.page.appendix import appendix_text
from tests.helpers import ROOT
from tests.helpers.drawn_figures import experiment_figures
from tests.helpers.studies import curve_in_rounds


def test_the_appendix_is_current():
    assert (ROOT / "ARTIFACT.md").read_text() == appendix_text(contents.read(), "sc"), "run: make appendix"


def test_the_other_style_has_every_experiment_and_the_claims_that_they_decide():
    data = contents.read()
    text = appendix_text(data, "eurosys")
    for number, _ in enumerate(data.experiments, 1):
        assert f"**Experiment (E{number})**" in text
    assert "11; needs two cores" in text  # measured minutes of E1
    assert "analysis/speedups.py:curve" in text
    assert f"C5 to C{len(data.claims)} are conclusions of the" in text
    assert "| C1 | `weak-scaling-pays` |" in text
    assert "| C52 | `004-averaging-loses-precision` |" in text
    assert "| C5 |" not in text


@pytest.mark.slow
def test_minutes_of_an_evaluation_are_kept(command, tmp_path, monkeypatch):
    minutes, evaluation, out = (tmp_path / name for name in ("minutes.json", "evaluation.json", "a.md"))
    monkeypatch.setattr(contents, "MINUTES", minutes)
    minutes.write_text("{}\n")
    evaluation.write_text("{}")
    error = command("appendix", "--file", evaluation, "--out", out, status=2).err
    assert "evaluation.json: not a file that `make evaluate` wrote" in error
    assert not out.exists()
    measured = {"make x": {"minutes": 2.5, "date": "2026-11-25", "cpu": "a", "cores": 2, "commit": "0" * 40}}
    evaluation.write_text(json.dumps({"rows": [], "minutes": measured}))
    command("appendix", "--file", evaluation, "--out", out)
    assert json.loads(minutes.read_text()) == measured


@pytest.fixture(scope="module")
def archive(tmp_path_factory):
    """The archive of an author who measured weak scaling: speedups of 1.5 to 1.65."""
    folder = tmp_path_factory.mktemp("author")
    curve_in_rounds(folder / "results")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "figures", experiment_figures)
        assert main(["bundle", "--results", str(folder / "results"), "--out", str(folder / "bundle.tar.gz")]) == 0
        yield folder / "bundle.tar.gz"


@pytest.mark.slow
def test_a_reviewer_who_measured_the_same_reproduces_it(command, archive, tmp_path):
    curve_in_rounds(tmp_path / "results")
    command("evaluate", archive, "--results", tmp_path / "results", "--out", tmp_path / "evaluation.md")
    document = json.loads((tmp_path / "evaluation.json").read_text())
    assert document["differing"] == []
    assert {step["command"] for step in document["steps"]} >= {"make tables", "make audit", "make claims"}
    assert all(step["outcome"] == "reproduced" for step in document["steps"]), document["steps"]
    rows = {row["id"]: row for row in document["rows"]}
    assert rows["weak-scaling-pays"]["outcome"] == rows["000-vgg19-best"]["outcome"] == "reproduced"
    assert "1.577 (1.271 to 1.957)" in rows["weak-scaling-pays"]["numbers"]
    assert rows["strong-scaling-loses"]["outcome"] == "not run"
    assert document["minutes"]["make tables"]["minutes"] >= 0
    text = (tmp_path / "evaluation.md").read_text()
    assert "78 claims: 4 not run, 74 reproduced, 0 not reproduced" in text
    assert "measured here (B)" in text


@pytest.mark.slow
def test_a_damaged_archive_and_an_experiment_that_is_none_are_named(command, archive, tmp_path):
    with tarfile.open(archive) as packed:
        packed.extractall(tmp_path)
    (tmp_path / "bundle/claims.json").write_text("[]")
    damaged = command("evaluate", tmp_path / "bundle", "--out", tmp_path / "evaluation.md", status=1)
    assert "differs: claims.json" in damaged.out
    assert not (tmp_path / "evaluation.md").exists()
    error = command("evaluate", archive, "--only", "E99", status=2).err
    assert "ONLY=E99: no such experiment; allowed are E1 to E21" in error


@pytest.mark.slow
def test_an_archive_that_is_exchanged_after_its_check_is_not_what_is_unpacked(archive, tmp_path, monkeypatch):
    """As its author could do whose folder it is in."""
    theirs = shutil.copy(archive, tmp_path / "theirs.tar.gz")
    check, unpacked = appendix.bundle_check.run_bundle_check, []

    def check_then_exchange(options):
        status = check(options)
        (tmp_path / "member").write_text("a member that would be written outside the folder")
        with tarfile.open(theirs, "w:gz") as hostile:
            hostile.add(tmp_path / "member", f"bundle/../../../../../..{tmp_path}/outside")
        return status

    def stop(_, kit):
        unpacked.extend(path.name for path in (kit.parent / "bundle").iterdir())
        raise KeyboardInterrupt

    monkeypatch.setattr(appendix.bundle_check, "run_bundle_check", check_then_exchange)
    monkeypatch.setattr(appendix, "_run_steps", stop)
    with suppress(KeyboardInterrupt):
        main(["evaluate", str(theirs), "--out", str(tmp_path / "evaluation.md")])
    assert "results" in unpacked
    assert not (tmp_path / "outside").exists()
