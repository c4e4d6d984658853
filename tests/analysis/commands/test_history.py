import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from record.schema import Failure
from tests.helpers.run_records import make_record, save
from tests.helpers.studies import month, month_of_allreduce

pytestmark = pytest.mark.slow  # reads launches of several months
NEW_COMMIT = {"slower": 1.25, "commit": "b" * 40}


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """An empty folder of results in the current folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path / "results"


@pytest.fixture
def first_month(folder):
    """The folder of results with the launches of a first month."""
    month(folder, 0)
    return folder


def verdicts(document):
    return {(point["point"], point["quantity"]): point["verdict"] for point in document["machines"][0]["points"]}


def failures(file):
    return ElementTree.parse(file).getroot().findall(".//failure")


def test_months_that_are_alike_slower_and_faster_and_only_slower_ones_fail(first_month, command, json_output):
    assert "one session: nothing to compare with yet; FORCE=1" in command("history", "weak_scaling", "--strict").out
    month(first_month, 1)
    assert set(verdicts(json_output("history", "weak-scaling")).values()) == {"alike"}
    month(first_month, 2, **NEW_COMMIT)
    result = json_output("history", "weak-scaling")
    slower = {(at, name): "worse" for at in ("1 node", "2 nodes") for name in ("images_per_s", "wall_s", "job_s")}
    assert verdicts(result) == slower | {("2 nodes", "speedup"): "alike"}
    commits = [session["provenance"]["commit"] for session in result["machines"][0]["sessions"]]
    assert commits == [["a" * 7], ["a" * 7], ["b" * 7]]
    command("history", "weak_scaling", "--strict", "--junit", "ci.xml", status=1)
    assert 0 < len(failures("ci.xml")) < int(ElementTree.parse("ci.xml").getroot().get("tests"))
    month(first_month, 3, slower=0.8)
    assert "better" in command("history", "weak_scaling", "--strict", "--draw").out
    assert Path("figures/history-weak-scaling.svg").is_file()


def test_allreduce_alone_in_a_history_and_beside_a_reference(folder, command, json_output):
    month_of_allreduce(folder, 0)
    assert "bus bandwidth [GB/s]" in command("reference", "link", "--experiment", "allreduce_bench").out
    month_of_allreduce(folder, 1, {2**20: 1.3})  # the link carries less
    points = json_output("history", "allreduce_bench")["machines"][0]["points"]
    assert [(point["verdict"], point["unit"]) for point in points] == [("alike", "s"), ("worse", "bytes/s")]
    checked = json_output("check-reference", "link", status=1)["comparisons"]
    assert [point["verdict"] for point in checked] == ["alike", "worse"]
    assert "allreduce  2 nodes, gloo" in command("history", "allreduce_bench", "--draw").out


def test_without_records_it_says_what_there_is_and_failures_of_other_experiments_are_not_named(first_month, command):
    error = command("history", "strong_scaling", status=2).err
    assert "no complete run of experiment 'strong_scaling' (there are: weak_scaling)" in error
    assert "since 2027-01-01" in command("history", "weak_scaling", "--since", "2027-01-01", status=2).err
    for name in ("weak_scaling", "overhead"):
        save(make_record(name, repeat=9, failure=Failure(f"killed in {name}")), first_month)
    errors = command("history", "weak-scaling").err
    assert "killed in weak_scaling" in errors
    assert "overhead" not in errors


def test_a_reference_is_written_kept_and_checked(first_month, command, json_output):
    output = command("reference", "first").out
    assert "references/first.json: 7 values of 6 launches, 2026-01-03 to 2026-01-03" in output
    assert "FORCE=1 replaces them" in command("reference", "first", status=2).err
    # The launches of the reference itself are not compared with it.
    notes = {point["note"] for point in json_output("check-reference", "first")["comparisons"]}
    assert notes == {"not measured since, in this configuration on this machine"}
    month(first_month, 1)
    assert {point["verdict"] for point in json_output("check-reference", "first")["comparisons"]} == {"alike"}
    month(first_month, 2, **NEW_COMMIT)
    check = command("check-reference", "first", "--junit", "ci.xml", status=1)
    assert failures("ci.xml")
    assert "commit: aaaaaaa -> bbbbbbb" in check.out
    output = command("reference", "first", "--force", "--since", "2026-02-01").out
    assert "7 values of 12 launches, 2026-02-03 to 2026-03-03" in output
