import xml.etree.ElementTree as ElementTree

import pytest

from tests.helpers.run_records import Results

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def records(tmp_path_factory):
    """A folder with one record."""
    results = Results(tmp_path_factory.mktemp("audited"))
    results.add()
    return results.folder


def test_details_of_the_reports_and_all_claims_are_shown_on_request(command, records):
    short, full = (command("audit", records, *more).out for more in ((), ("--all",)))
    assert ["SERIOUS zero_speed" in text for text in (short, full)] == [False, True]
    short, full = (command("claims", "--results", records, *more).out for more in ((), ("--all",)))
    assert short.startswith("74 claims: 17 contradicted, 31 not decidable, 26 supported\n")
    assert ["SUPPORTED 004-less-accurate" in text for text in (short, full)] == [False, True]


def test_strict_is_about_local_records_or_a_study_in_a_file(command, json_output, records, tmp_path):
    """The reports have serious findings, the record has none."""
    path, junit = tmp_path / "study.csv", tmp_path / "audit.xml"
    path.write_text("gpus,steps_per_worker,train_s,images_per_s_per_gpu\n1,100,70,100\n2,50,40,180\n4,25,,95\n")
    for arguments, status in (([records], 0), (["--file", path], 1)):
        command("audit", *arguments, "--strict", "--junit", junit, status=status)
        failures = [failure.text for failure in ElementTree.parse(junit).getroot().findall(".//failure")]
        faster = ["stated: 3.6x by images_per_s; follows: at most 2x" in text for text in failures]
        assert faster == [True] * status
    assert json_output("audit", "--file", path)["version"] == 3
    assert "audits this study alone" in command("audit", "--file", path, "results", status=2).err
    assert "nowhere: does not exist" in command("audit", "nowhere", status=2).err
