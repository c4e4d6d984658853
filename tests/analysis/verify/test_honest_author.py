"""What is said of launches that nobody touched, and of misfortunes: notes, and one line of what is not verifiable."""

import json
import os
import shutil
from pathlib import Path

import pytest

from analysis import verify
from analysis.archive import collect
from analysis.study import Study
from record import ledger
from record import schema as record
from record.schema import PHASES, RECORD_NAME
from tests.helpers import launched
from tests.helpers.launched import found, home, packed, said, verified


@pytest.fixture
def results(tmp_path) -> Path:
    return launched.results(tmp_path / "results")


def no_accusation(results: Path, *texts: str) -> None:
    said(results, *texts)
    assert {rule for rule, severity, _ in found(results) if severity != "note"} <= {"launch_unaccounted"}


def test_launches_that_nobody_touched(results):
    assert found(results) == []
    assert verify.verify(verify.in_archive(packed(results))).findings == []


def test_an_archive_without_parts(results):
    for path in [*results.rglob("*.jsonl"), *results.rglob("run.json")]:
        path.unlink()
    no_accusation(
        results, "not_compared note 6 of 6 records: files of their launches are missing; 6 of 6 records: no l"
    )
    (finding,) = verify.verify(verify.in_archive(packed(results))).findings
    assert (finding.rule, finding.severity) == ("not_compared", "note")


def test_a_scrubbed_archive_says_that_it_is_not_compared(results):
    collected = collect(results, scrubbed=True)
    assert not collected.attachments
    (finding,) = verify.verify(
        verify.in_archive({f"results/{p}": text for p, text in collected.records.items()})
    ).findings
    assert finding.severity == "note"
    assert finding.stated.startswith("6 of 6 records: scrubbed: ")


def test_an_archive_has_the_ledgers_of_points_without_a_record(tmp_path):
    results = tmp_path / "results"
    launched.launch(results, 1, 0, ends="killed")
    launched.launch(results, 2, 0)
    files = collect(results, scrubbed=False)
    contents = {f"results/{path}": text for path, text in (files.records | files.attachments).items()}
    stated = [finding.stated for finding in verify.verify(verify.in_archive(contents)).findings]
    assert [text.partition(":")[0] for text in stated] == [text.partition(":")[0] for *_, text in found(results)]


@pytest.mark.parametrize("ends", ["killed", *PHASES[:-1]])
def test_a_killed_launcher_a_full_disk_and_an_interruption_in_each_phase(tmp_path, ends):
    """The same command goes on. A full disk leaves what a killed launcher leaves."""
    results, lost = tmp_path / "results", ["launch_unaccounted note r0 began / no record"] * (ends == "killed")
    launched.launch(results, 1, 0)
    launched.launch(results, 2, 0, ends=ends)
    no_accusation(results, *lost, "launch_unaccounted warning planned")
    launched.launch(results, 2, 0)
    no_accusation(results, *lost, "launch_unaccounted warning planned")


def test_forced_launches_are_ordinary_lines(tmp_path):
    results, plan = tmp_path / "results", launched.names(launched.PLAN[:1])
    launched.launch(results, 1, 0, plan=plan)
    launched.launch(results, 1, 0, plan=plan)
    no_accusation(results, "measured_again note")


def test_a_line_that_a_crash_cut_short(results):
    path = home(results) / ledger.NAME
    path.write_bytes(path.read_bytes()[:-20])
    cut = "ledger_broken note line 6 is incomplete", "launch_unaccounted note no line of the ledger / of its end"
    no_accusation(results, *cut)
    launched.launch(results, 2, 3)
    no_accusation(results, *cut)


def test_a_copy_that_was_interrupted_within_a_ledger(results):
    """Later launches found the line that is incomplete here."""
    path = home(results, 1) / ledger.NAME
    path.write_bytes(path.read_bytes()[:-20])
    assert not verified(results).serious
    assert "ledger_broken warning 5 lines" in [" ".join(finding) for finding in found(results)]


def test_numbers_that_were_read_again_are_no_copy(results):
    shutil.copytree(home(results) / "r1", home(results) / "r1.2")
    run = record.load(home(results) / "r1.2" / RECORD_NAME)
    run.generation = 2
    (home(results) / "r1.2" / RECORD_NAME).write_bytes(record.dumps(run))
    assert not [finding for finding in found(results) if finding[2].startswith("rank-")]


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
    no_accusation(results, "not_compared note 1 of 6 records: files of their launches are missing")


def test_a_ledger_that_was_lost_or_removed_is_named_by_the_launches_that_found_it(results):
    (home(results) / ledger.NAME).unlink()
    said(results, "ledger_broken warning no ledger", "not_compared note 3 of 6 records: no ledger")
    (finding, _) = verified(results).findings
    assert finding.place.endswith(f"{home(results).name}/{ledger.NAME}")
    assert finding.follows.startswith("the 4 lines that ")  # before the last launch there, each with two lines
    assert finding.follows.endswith("/r2 found")


def crlf(content: bytes) -> bytes:
    return content.replace(b"\n", b"\r\n")


def indented(content: bytes) -> bytes:
    if content.count(b"\n{"):  # a file with a value on each line
        return content
    return json.dumps(json.loads(content), indent=4).encode()


@pytest.mark.parametrize(
    "change", [crlf, lambda content: content + b"\n", lambda content: b"\xef\xbb\xbf" + content, indented]
)
def test_line_ends_white_space_and_a_mark_are_named_and_the_record_counts(results, change):
    paths = [path for path in home(results).rglob("*.json*") if change(path.read_bytes()) != path.read_bytes()]
    for path in paths:
        path.write_bytes(change(path.read_bytes()))
    rewritten = [path for path in paths if path.name in ("record.json", "run.json")]
    no_accusation(results, *["rewritten note other bytes"] * len(rewritten))
    assert verified(results).remade == 6
    assert len(record.find(results)) == 6
    assert not Study(results).left_out


def test_a_backup_is_named_and_does_not_count(results):
    shutil.copytree(home(results) / "r0", home(results) / "r0-old")
    shutil.copytree(home(results) / "r0", home(results) / "r0 (copy)")
    shutil.copy(home(results) / "r1" / RECORD_NAME, home(results) / "r1" / "record.json.orig")
    no_accusation(results, *["backup note a record"] * 2)
    assert verified(results).records == len(record.find(results)) == 6


def test_a_record_of_a_kit_that_recorded_less(results):
    """It has no time of its end, and run.json no ledgers."""
    path = home(results) / "r2" / RECORD_NAME
    run = json.loads(path.read_bytes())
    for name in ("ended_at", "enough_rounds"):
        del run[name]
    text = json.dumps(run, separators=(",", ":")).encode()
    path.write_bytes(text.replace(run["sha256"].encode(), record.digest(text, run["sha256"]).encode()))
    said(results, "record_changed serious its SHA-256")  # it says the same; the ledger knows that it is another file


def test_an_experiment_that_was_copied_while_it_ran(results):
    """The ledger of one point is older than the launches of the other."""
    path = home(results, 1) / ledger.NAME
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))
    shutil.rmtree(home(results, 1) / "r2")
    assert not verified(results).serious


def test_a_point_that_was_deleted_and_measured_again(results):
    shutil.rmtree(home(results, 1))
    launched.launch(results, 1, 0)
    launched.launch(results, 1, 1)
    launched.launch(results, 1, 2)
    said(results, "ledger_broken warning another ledger")


def test_a_rank_that_wrote_on_after_its_record(results):
    with (home(results) / "r1" / "rank-1.host0.7.jsonl").open("a") as file:
        file.write('{"notes": ["late"]}\n')
    assert found(results) == []


def test_what_is_no_regular_file_is_not_read(results):
    """A pipe without a writer would block."""
    for path in (home(results) / ledger.NAME, home(results) / "r1" / "rank-1.host0.7.jsonl"):
        path.unlink()
        os.mkfifo(path)
    said(results, "ledger_broken warning no ledger", "not_compared note 1 of 6 records / 3 of 6 records: no ledger")


def test_a_record_elsewhere_is_verified_by_the_files_in_its_folder(results, tmp_path):
    alone = tmp_path / "elsewhere" / "mine"
    shutil.copytree(home(results) / "r1", alone)
    (finding,) = verify.verify(verify.on_disk([str(alone / RECORD_NAME)])).findings
    assert finding.stated == "1 of 1 records: no ledger: launches that were dropped do not show"


def test_a_launch_that_was_skipped_left_a_line(tmp_path):
    results, plan = tmp_path / "results", launched.names()
    for nodes, repeat in launched.PLAN[:5]:
        if (nodes, repeat) == (2, 1):
            ledger.append(home(results), ledger.Line("skip", 1, reason="the time is over"))
        else:
            launched.launch(results, nodes, repeat, plan=plan)
    no_accusation(results, f"launch_unaccounted warning planned / {plan[5]}")
