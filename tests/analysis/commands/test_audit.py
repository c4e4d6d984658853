import json
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from analysis.__main__ import main
from analysis.commands.audit import CLAIMS_FORMATS
from tests.helpers.judged import judged
from tests.helpers.own_records import Results

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def records(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A folder with one record."""
    results = Results(tmp_path_factory.mktemp("audited"))
    results.add()
    return str(results.folder)


def test_json_of_the_published_numbers(capsys, records):
    assert main(["audit", records, "--format", "json"]) == 0
    output = json.loads(capsys.readouterr().out)
    findings = output["findings"]
    slip = [f for f in findings if f["rule"] == "primary_source" and f["severity"] == "serious"]
    assert [(f["stated"], f["follows"]) for f in slip] == [("596 images/s", "569 in the source")]
    assert {f["report"] for f in findings} == {"000", "001", "003", "004", "local"}
    assert {c["report"] for c in output["claims"]} == {"000", "001", "002", "003", "004"}


def test_markdown_has_both_tables(capsys, records):
    assert main(["audit", records, "--format", "markdown"]) == 0
    shown = capsys.readouterr().out
    assert "## Findings" in shown
    assert "| 003-batch-64-or-32 " in shown.partition("## Claims")[2]


def test_strict_looks_at_what_is_the_users(capsys, records, tmp_path):
    """The reports have serious findings, the record has none."""
    assert main(["audit", records, "--strict", "--junit", str(tmp_path / "audit.xml")]) == 0
    suite = ElementTree.parse(tmp_path / "audit.xml").getroot()
    assert suite.get("failures") == "0"
    assert int(suite.get("tests", "0")) > 20


def test_text_fits_a_hundred_columns(capsys, records):
    assert main(["audit", records]) == 0
    shown = capsys.readouterr().out
    assert max(map(len, shown.splitlines())) <= 100
    assert "== local records" in shown


def test_a_study_in_a_file(capsys, tmp_path, json_output):
    path = tmp_path / "study.csv"
    path.write_text(
        "gpus,steps_per_worker,batch_per_gpu,train_s,images_per_s_per_gpu\n1,100,64,70,100\n2,50,64,40,180\n4,25,64,,95\n"
    )
    assert main(["audit", "--file", str(path), "--strict", "--junit", str(tmp_path / "audit.xml")]) == 1
    failures = ElementTree.parse(tmp_path / "audit.xml").getroot().findall(".//failure")
    assert any("stated: 3.6x by images_per_s; follows: at most 2x" in failure.text for failure in failures)
    shown = capsys.readouterr().out
    assert "== study.csv: findings" in shown
    assert "stated: 3.6x by images_per_s; follows: at most 2x (+80.0%)" in shown
    assert "claims" not in shown
    assert "line 4, column 'train_s': empty" in shown
    document = json_output("audit", "--file", path)
    assert (document["version"], document["claims"]) == (2, [])
    assert main(["audit", "--file", str(path), "results"]) == 2
    assert "audits this study alone" in capsys.readouterr().err


def test_a_place_that_is_not_there(capsys):
    assert main(["audit", str(Path("nowhere"))]) == 2
    assert "nowhere: does not exist" in capsys.readouterr().err


PAGE = Path(__file__).parents[3] / "docs" / "claims.md"


def printed(form):
    return CLAIMS_FORMATS[form](judged())


def test_the_command_prints_a_format(tmp_path, capsys):
    assert main(["claims", "--format", "markdown", "--results", str(tmp_path)]) == 0
    assert capsys.readouterr().out == printed("markdown") + "\n"


def test_the_page_has_what_the_command_prints():
    shown = PAGE.read_text().partition("<!-- claims -->")[2].partition("<!-- end of claims -->")[0].strip()
    assert shown == printed("markdown").strip(), "run: python -m analysis claims --format markdown, into docs/claims.md"


def test_the_table_for_people_counts_the_verdicts():
    output = printed("table")
    assert "NOT DECIDABLE 000-speed-near-ideal (text, Results)" in output
    assert output.splitlines()[-1].startswith("74 claims: ")
