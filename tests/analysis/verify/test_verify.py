"""What is said of changed, removed, repeated and exchanged launches; and of honest misfortunes."""

import json
import os
import shutil
from pathlib import Path

import msgspec
import pytest

from analysis import verify
from tests.helpers import launched
from tests.helpers.run_records import make_record
from train.record import files, ledger, protocol, record
from train.record.record import RECORD_NAME, RunRecord
from train.record.summary import record_summary


@pytest.fixture
def results(tmp_path) -> Path:
    return launched.results(tmp_path / "results")


def home(results: Path, nodes: int = 2) -> Path:
    return launched.point_folder(results, make_record(nodes=nodes, steps=2))


def found(results: Path) -> list[tuple[str, str, str]]:
    """Return rule, severity and stated text of each finding."""
    findings = verify.verify(verify.on_disk(str(path) for path in record.find(results)))
    return [(finding.rule, finding.severity, finding.stated) for finding in findings]


def said(results: Path, *texts: str) -> None:
    """Assert that these are the findings: each rule, severity and stated text has the words of its text."""
    findings = [" ".join(finding) for finding in found(results)]
    assert len(findings) == len(texts), findings
    for text in texts:
        assert any(all(word in finding for word in text.split(" / ")) for finding in findings), (text, findings)


def rewritten(path: Path, change) -> RunRecord:
    """Change a record and sign it again, as who has the source can."""
    run = record.load(path)
    change(run)
    path.write_bytes(record.dumps(run))
    return run


def faster(folder: Path) -> dict[str, str]:
    """Shorten the steps of a launch in the files of its ranks; return the digests of the files beside its record."""
    for path in protocol.part_paths(folder):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            if "step_times_s" in line:
                line["step_times_s"], line["phases_s"]["timed"] = [0.4, 0.4], 0.81
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    return {path.name: files.digest(path) for path in (protocol.assignment_path(folder), *protocol.part_paths(folder))}


def with_parts(folder: Path) -> None:
    """Edit a launch with its parts: the record is made of the edited files."""
    sources = faster(folder)

    def shorten(run):
        for rank in run.ranks:
            rank.step_times_s, rank.phases_s["timed"] = [0.4, 0.4], 0.81
            rank.phases_s["exit"] = run.job_s - sum(s for name, s in rank.phases_s.items() if name != "exit")
        run.sources, run.summary = sources, record_summary(run)

    rewritten(folder / RECORD_NAME, shorten)


def with_ledger(folder: Path) -> None:
    """Make the ledger of a point agree with an edited record: its line, and all after it."""
    path = folder.parent / ledger.NAME
    lines = [msgspec.json.decode(text, type=ledger.Line) for text in path.read_bytes().splitlines()]
    path.unlink()
    for line in lines:
        if line.event == "end" and files.run_folder(folder.parent, line.repeat, line.generation) == folder:
            line = msgspec.structs.replace(line, record=files.digest(folder / RECORD_NAME))
        ledger.append(folder.parent, line)


def test_launches_that_nobody_touched(results):
    assert found(results) == []
    assert list(verify.verify(verify.in_archive(packed(results)))) == []


def packed(results: Path) -> dict[str, bytes]:
    paths = (path for path in results.rglob("*") if path.is_file())
    return {path.relative_to(results.parent).as_posix(): path.read_bytes() for path in paths}


# ---- an author who has the source, and is not honest ----


def test_the_worst_launch_dropped(results):
    shutil.rmtree(home(results) / "r1")
    said(results, "launch_unaccounted warning r1 began / ended complete; no record")


def test_the_worst_launch_dropped_and_the_rest_renumbered(results):
    shutil.rmtree(home(results) / "r1")
    (home(results) / "r2").rename(home(results) / "r1")
    rewritten(home(results) / "r1" / RECORD_NAME, lambda run: setattr(run, "repeat", 1))
    texts = " ".join(" ".join(finding) for finding in found(results))
    assert "record_changed serious repeat: 1" in texts  # run.json says 2
    assert "r1, generation 1, in the folder r1" in texts
    assert "r2 began" in texts


def test_all_launches_of_a_point_dropped(results):
    shutil.rmtree(home(results))
    notes_only(results, *["launch_unaccounted note planned, and no line or record: resnet50_nodes=2"] * 2)


def test_a_launch_repeated_until_it_pleased(results):
    launched.launch(results, 2, 0, step_s=0.6)
    launched.launch(results, 2, 0, step_s=0.4)
    said(results, "measured_again note / r0 3 times")
    shutil.rmtree(home(results) / "r0")
    shutil.rmtree(home(results) / "r0.2")
    said(results, "measured_again", "warning r0 began / no record", "warning r0.2 began / no record")


def test_a_record_edited(results):
    path = home(results) / "r1" / RECORD_NAME
    rewritten(path, lambda run: run.ranks[0].step_times_s.__setitem__(0, 0.3))
    said(results, "record_changed serious ranks[0].step_times_s[0]: 0.3", "record_changed serious its SHA-256")


def test_a_record_edited_with_its_parts(results):
    with_parts(home(results) / "r1")
    said(results, "record_changed serious its SHA-256")


def test_a_record_edited_with_its_parts_and_the_ledger_is_found_by_a_signature_alone(results):
    with_parts(home(results) / "r2")
    with_ledger(home(results) / "r2")
    assert found(results) == []


def test_an_edited_ledger_of_an_earlier_launch_breaks_what_later_records_name(results):
    with_parts(home(results) / "r0")
    with_ledger(home(results) / "r0")
    said(results, *["launch_unaccounted warning no line of the ledger"] * 2)


def test_parts_of_two_launches_exchanged(results):
    for name in ("rank-0.host0.7.jsonl", "rank-1.host0.7.jsonl"):
        first, second = home(results) / "r0" / name, home(results) / "r1" / name
        content = first.read_bytes()
        first.write_bytes(second.read_bytes())
        second.write_bytes(content)
    said(results, *["record_changed serious rank-0.host0.7.jsonl: SHA-256"] * 2)


def cut(results: Path, lines: int) -> None:
    path = home(results) / ledger.NAME
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-lines]))


def test_the_tail_of_the_ledger_cut(results):
    cut(results, 2)
    said(results, "launch_unaccounted warning no line of the ledger")
    shutil.rmtree(home(results) / "r2")  # with its launch: as if it had been interrupted before
    said(results, f"launch_unaccounted note planned / {launched.names()[5]}")


def test_a_line_removed_from_the_middle(results):
    path = home(results) / ledger.NAME
    lines = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2] + lines[4:]))
    shutil.rmtree(home(results) / "r1")
    said(
        results,
        "ledger_broken serious line 3",
        f"launch_unaccounted note planned, and no line or record: {launched.names()[3]}",
    )


def test_a_launch_of_another_machine_merged_in(results, tmp_path):
    other = launched.launch(tmp_path / "other", 2, 3, step_s=0.2)
    shutil.copytree(other, home(results) / "r3")
    said(results, "launch_unaccounted warning no line of the ledger")


def test_a_folder_of_another_machine_merged_over(results, tmp_path):
    other = launched.launch(tmp_path / "other", 2, 3, step_s=0.2).parents[2]
    shutil.copytree(other, home(results).parents[1], dirs_exist_ok=True)
    said(results, *["launch_unaccounted warning no line of the ledger"] * 3)


# ---- an honest one ----


def notes_only(results: Path, *texts: str) -> None:
    said(results, *texts)
    assert {severity for _, severity, _ in found(results)} <= {"note"}


def test_an_archive_without_parts(results):
    for path in [*results.rglob("*.jsonl"), *results.rglob("run.json")]:
        path.unlink()
    notes_only(results, "not_verifiable note 6 of 6 records: files of their launches are missing; 6 of 6 records: no l")
    (finding,) = verify.verify(verify.in_archive(packed(results)))
    assert (finding.rule, finding.severity) == ("not_verifiable", "note")


@pytest.mark.parametrize("ends", ["killed", "no room"])
def test_a_killed_launcher_or_a_full_disk(tmp_path, ends):
    results = tmp_path / "results"
    launched.launch(results, 1, 0)
    launched.launch(results, 2, 0, ends=ends)
    notes_only(results, "launch_unaccounted note r0 began / no record", "launch_unaccounted note planned")
    launched.launch(results, 2, 0)  # the same command goes on
    notes_only(results, "launch_unaccounted note r0 began / no record", "launch_unaccounted note planned")


def test_an_interrupted_launch_and_forced_ones_are_ordinary_lines(tmp_path):
    results = tmp_path / "results"
    launched.launch(results, 1, 0, ends="interrupted", plan=launched.names(launched.PLAN[:1]))
    assert found(results) == []
    launched.launch(results, 1, 0, plan=launched.names(launched.PLAN[:1]))
    assert found(results) == []
    launched.launch(results, 1, 0, plan=launched.names(launched.PLAN[:1]))
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


@pytest.mark.parametrize("text", ["[]", "[" * 100_000, '{"config": 5}', '{"config": {}, "plan": 3}'])
def test_a_file_that_is_made_to_break_the_reader(results, text):
    path = home(results) / "r1" / "run.json"
    path.write_text(text)
    rewritten(home(results) / "r1" / RECORD_NAME, lambda run: run.sources.update({"run.json": files.digest(path)}))
    (home(results) / "r2" / "rank-0.host0.7.jsonl").write_text(text)
    assert {rule for rule, severity, _ in found(results) if severity == "serious"} == {"record_changed"}


def test_a_record_elsewhere_is_verified_by_the_files_in_its_folder(results, tmp_path):
    alone = tmp_path / "elsewhere" / "mine"
    shutil.copytree(home(results) / "r1", alone)
    (finding,) = verify.verify(verify.on_disk([str(alone / RECORD_NAME)]))
    assert finding.stated == "1 of 1 records: no ledger: launches that were dropped do not show"


def test_records_without_digests(tmp_path):
    run = make_record()
    path = launched.point_folder(tmp_path, run) / "r0" / RECORD_NAME
    files.write_once(path, record.dumps(run))
    notes_only(tmp_path, "not_verifiable note 1 of 1 records: no digests in them / 1 of 1 records: no ledger")


def test_a_launch_that_was_skipped_left_a_line(tmp_path):
    results, plan = tmp_path / "results", launched.names()
    for nodes, repeat in launched.PLAN[:5]:
        if (nodes, repeat) == (2, 1):
            ledger.append(home(results), ledger.Line("skip", 1, reason="the time is over"))
        else:
            launched.launch(results, nodes, repeat, plan=plan)
    notes_only(results, f"launch_unaccounted note planned / {plan[5]}")
