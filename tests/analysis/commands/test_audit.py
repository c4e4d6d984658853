import xml.etree.ElementTree as ElementTree

import pytest

from tests.helpers.run_records import Results

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """A folder with one record."""
    results = Results(tmp_path_factory.mktemp("audited"))
    results.add()
    return results.folder


def test_totals_come_first_and_details_of_the_reports_on_request(command, records):
    short, full = (command("audit", records, *more).out for more in ((), ("--all",)))
    assert short.splitlines()[0] == full.splitlines()[0]
    assert "make audit ALL=1" in short
    assert "SERIOUS zero_speed" not in short
    assert "SERIOUS zero_speed" in full
    short, full = (command("claims", "--results", records, *more).out for more in ((), ("--all",)))
    assert short.startswith("74 claims: 17 contradicted, 31 not decidable, 26 supported\n")
    assert len(short.splitlines()) < 20
    assert "SUPPORTED 004-less-accurate" in full


def test_text_fits_the_terminal_and_strict_is_about_local_records(command, records, monkeypatch):
    """The reports have serious findings, the record has none."""
    monkeypatch.setenv("COLUMNS", "80")
    output = command("audit", records, "--strict", "--junit", "audit.xml").out
    assert max(len(line) for line in output.splitlines() if str(records) not in line) <= 80  # a path stays whole
    assert "== local records" in output
    suite = ElementTree.parse("audit.xml").getroot()
    assert suite.get("failures") == "0"
    assert int(suite.get("tests")) > 20


def test_a_study_in_a_file(command, json_output, tmp_path):
    path = tmp_path / "study.csv"
    path.write_text(
        "gpus,steps_per_worker,batch_per_gpu,train_s,images_per_s_per_gpu\n1,100,64,70,100\n2,50,64,40,180\n4,25,64,,95\n"
    )
    output = command("audit", "--file", path, "--strict", "--junit", "audit.xml", status=1).out
    faster = "stated: 3.6x by images_per_s; follows: at most 2x"
    assert any(faster in failure.text for failure in ElementTree.parse("audit.xml").getroot().findall(".//failure"))
    assert "== study.csv" in output
    assert f"{faster} (+80.0%)" in output
    assert "claims" not in output
    assert "line 4, column 'train_s': empty" in " ".join(output.split())
    document = json_output("audit", "--file", path)
    assert document["version"] == 3
    assert "audits this study alone" in command("audit", "--file", path, "results", status=2).err


def test_a_folder_that_is_not_there(command):
    assert "nowhere: does not exist" in command("audit", "nowhere", status=2).err
