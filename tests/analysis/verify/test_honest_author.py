"""What is said of launches that nobody touched, and of misfortunes: notes, and one line of what is not verifiable."""

import os
import shutil
from pathlib import Path

import pytest

from analysis import verify
from analysis.archive import collect
from record import ledger
from record.schema import PHASES, RECORD_NAME
from tests.helpers import launched
from tests.helpers.launched import found, home, packed, said


@pytest.fixture
def results(tmp_path) -> Path:
    return launched.results(tmp_path / "results")


def notes_only(results: Path, *texts: str) -> None:
    said(results, *texts)
    assert {severity for _, severity, _ in found(results)} <= {"note"}


def test_launches_that_nobody_touched(results):
    assert found(results) == []
    assert list(verify.verify(verify.in_archive(packed(results)))) == []


def test_an_archive_without_parts(results):
    for path in [*results.rglob("*.jsonl"), *results.rglob("run.json")]:
        path.unlink()
    notes_only(results, "not_verifiable note 6 of 6 records: files of their launches are missing; 6 of 6 records: no l")
    (finding,) = verify.verify(verify.in_archive(packed(results)))
    assert (finding.rule, finding.severity) == ("not_verifiable", "note")


def test_a_scrubbed_archive_says_that_it_is_not_verifiable(results):
    collected = collect(results, scrubbed=True)
    assert not collected.attachments
    (finding,) = verify.verify(verify.in_archive({f"results/{p}": text for p, text in collected.records.items()}))
    assert finding.severity == "note"
    assert finding.stated.startswith("6 of 6 records: scrubbed, so not verifiable")


def test_an_archive_has_the_ledgers_of_points_without_a_record(tmp_path):
    results = tmp_path / "results"
    launched.launch(results, 1, 0, ends="killed")
    launched.launch(results, 2, 0)
    files = collect(results, scrubbed=False)
    contents = {f"results/{path}": text for path, text in (files.records | files.attachments).items()}
    stated = [finding.stated for finding in verify.verify(verify.in_archive(contents))]
    assert [text.partition(":")[0] for text in stated] == [text.partition(":")[0] for *_, text in found(results)]


@pytest.mark.parametrize("ends", ["killed", *PHASES[:-1]])
def test_a_killed_launcher_a_full_disk_and_an_interruption_in_each_phase(tmp_path, ends):
    """The same command goes on. A full disk leaves what a killed launcher leaves."""
    results, lost = tmp_path / "results", ["launch_unaccounted note r0 began / no record"] * (ends == "killed")
    launched.launch(results, 1, 0)
    launched.launch(results, 2, 0, ends=ends)
    notes_only(results, *lost, "launch_unaccounted note planned")
    launched.launch(results, 2, 0)
    notes_only(results, *lost, "launch_unaccounted note planned")


def test_forced_launches_are_ordinary_lines(tmp_path):
    results, plan = tmp_path / "results", launched.names(launched.PLAN[:1])
    launched.launch(results, 1, 0, plan=plan)
    launched.launch(results, 1, 0, plan=plan)
    notes_only(results, "measured_again note")


def test_a_line_that_a_crash_cut_short(results):
    path = home(results) / ledger.NAME
    path.write_bytes(path.read_bytes()[:-20])
    notes_only(results, "ledger_broken note line 6 is incomplete")
    launched.launch(results, 2, 3)
    notes_only(results, "ledger_broken note line 6 is incomplete")


def test_two_launchers_in_a_folder_without_locks(results):
    path = home(results) / ledger.NAME
    before = path.read_bytes()
    launched.launch(results, 2, 3)
    first = path.read_bytes().removeprefix(before)
    path.write_bytes(before)
    launched.launch(results, 2, 4)
    path.write_bytes(before + first + path.read_bytes().removeprefix(before))
    said(results, "ledger_broken warning line 9 follows on another line")


def test_a_copied_folder_and_one_that_lost_a_file(results, tmp_path):
    shutil.copytree(results, tmp_path / "copy")
    assert found(tmp_path / "copy") == []
    (home(results) / "r1" / "rank-1.host0.7.jsonl").unlink()
    notes_only(results, "not_verifiable note 1 of 6 records: files of their launches are missing")
    (home(results) / ledger.NAME).unlink()
    notes_only(results, "1 of 6 records: files of their launches are missing; 3 of 6 records: no ledger")


def test_a_rank_that_wrote_on_after_its_record(results):
    with (home(results) / "r1" / "rank-1.host0.7.jsonl").open("a") as file:
        file.write('{"notes": ["late"]}\n')
    assert found(results) == []


def test_what_is_no_regular_file_is_not_read(results):
    """A pipe without a writer would block."""
    for path in (home(results) / ledger.NAME, home(results) / "r1" / "rank-1.host0.7.jsonl"):
        path.unlink()
        os.mkfifo(path)
    notes_only(results, "1 of 6 records: files of their launches are missing; 3 of 6 records: no ledger")


def test_a_record_elsewhere_is_verified_by_the_files_in_its_folder(results, tmp_path):
    alone = tmp_path / "elsewhere" / "mine"
    shutil.copytree(home(results) / "r1", alone)
    (finding,) = verify.verify(verify.on_disk([str(alone / RECORD_NAME)]))
    assert finding.stated == "1 of 1 records: no ledger: launches that were dropped do not show"


def test_a_launch_that_was_skipped_left_a_line(tmp_path):
    results, plan = tmp_path / "results", launched.names()
    for nodes, repeat in launched.PLAN[:5]:
        if (nodes, repeat) == (2, 1):
            ledger.append(home(results), ledger.Line("skip", 1, reason="the time is over"))
        else:
            launched.launch(results, nodes, repeat, plan=plan)
    notes_only(results, f"launch_unaccounted note planned / {plan[5]}")
