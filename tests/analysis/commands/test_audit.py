import json
from pathlib import Path

import pytest

from analysis.__main__ import main

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def test_json_of_the_published_numbers(capsys):
    assert main(["audit", "--format", "json"]) == 0
    told = json.loads(capsys.readouterr().out)
    findings = told["findings"]
    slip = [f for f in findings if f["rule"] == "primary_source" and f["severity"] == "serious"]
    assert [(f["stated"], f["follows"]) for f in slip] == [("596 images/s", "569 in the source")]
    assert {f["report"] for f in findings} == {"000", "001", "003", "004"}
    assert {c["report"] for c in told["claims"]} == {"000", "001", "002", "003", "004"}


def test_markdown_has_both_tables(capsys):
    assert main(["audit", "--format", "markdown"]) == 0
    shown = capsys.readouterr().out
    assert "## Findings" in shown
    assert "| 003-batch-64-or-32 " in shown.partition("## Claims")[2]


def test_strict_fails_on_a_serious_finding(capsys):
    assert main(["audit", "--strict"]) == 1


def test_text_fits_a_hundred_columns(capsys, results):
    results.add()
    assert main(["audit", str(results.folder)]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 100
    assert "== local records" in shown


def test_a_place_that_is_not_there(capsys):
    assert main(["audit", str(Path("nowhere"))]) == 2
    assert "nowhere: does not exist" in capsys.readouterr().err
