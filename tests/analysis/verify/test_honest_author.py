"""What is said of launches that nobody touched, and of misfortunes: notes, and one line of what is not verifiable."""

import json
import os
import shutil
from functools import partial
from pathlib import Path

import pytest

from analysis import verify
from analysis.archive import collect
from analysis.study import Study
from record import ledger
from record import schema as record
from record.schema import RECORD_NAME
from tests.helpers import launched
from tests.helpers.launched import check, drop, home, keep_lines, verified


def delete(results: Path, *patterns: str) -> None:
    for path in [path for pattern in patterns for path in results.rglob(pattern)]:
        path.unlink()


def cut_short(results: Path, nodes: int) -> None:
    """Remove the end of the last line of a ledger."""
    path = home(results, nodes) / ledger.NAME
    path.write_bytes(path.read_bytes()[:-20])


def truncate(results: Path) -> None:
    path = home(results) / "r1" / RECORD_NAME
    path.write_bytes(path.read_bytes()[:-20])


def write_on(results: Path) -> None:
    """Write a line and a part of one."""
    with (home(results) / "r1" / "rank-1.host0.7.jsonl").open("a") as file:
        file.write('{"notes": ["late"]}\n{"notes"')


def copy_run(results: Path, *names: str) -> None:
    for name in names:
        shutil.copytree(home(results) / "r0", home(results) / name)


def read_again(results: Path) -> None:
    """Make a generation of the same numbers."""
    copy_run(results, "r0.2")
    path = home(results) / "r0.2" / RECORD_NAME
    run = record.load(path)
    run.generation = 2
    path.write_bytes(record.dumps(run))


def launch_without_locks(results: Path) -> None:
    """Launch as if the ledger had only its first line, as one that read it with another launcher."""
    path = home(results) / ledger.NAME
    before = path.read_bytes()
    keep_lines(results, slice(1))
    first = path.read_bytes()
    launched.launch(results, 2, 3)
    path.write_bytes(before + path.read_bytes().removeprefix(first))


def leave_pipes(results: Path) -> None:
    """A pipe without a writer would block."""
    for path in (home(results) / ledger.NAME, home(results) / "r1" / "rank-1.host0.7.jsonl"):
        path.unlink()
        os.mkfifo(path)


def of_an_older_kit(results: Path) -> None:
    """The record has no time of its end, and run.json no ledgers."""
    path = home(results) / "r2" / RECORD_NAME
    run = json.loads(path.read_bytes())
    for name in ("ended_at", "enough_rounds"):
        del run[name]
    text = json.dumps(run, separators=(",", ":")).encode()
    path.write_bytes(text.replace(run["sha256"].encode(), record.digest(text, run["sha256"]).encode()))


CUT = ("ledger_broken note line 6 is incomplete; a whole line; A crash", "launch_unaccounted note no line / of its end")
REMOVED = "warning no ledger; the 4 lines that / found; It was removed or lost: launches"
MISSING, NO_LEDGER = "of 6 records: files of their launches are missing", "3 of 6 records: no ledger"
# What happened, and the findings. The launches are r0, r1 and r2 of two points, in turn.
CASES = {
    "nothing": ([],),
    "records without files": (
        [(delete, "*.jsonl", "run.json")],
        f"not_compared note 6 {MISSING}; 6 of 6 records: no l",
    ),
    "a lost file": (
        [(delete, "tiny-nodes2*/*/r1/rank-1.host0.7.jsonl")],
        f"not_compared note 1 {MISSING}; digests, files and a ledger; They are used as the others are.",
    ),
    "a record that was cut short": (
        [(truncate,)],
        "unreadable_record serious not a whole run record: / a record; It is not used.",
        "record_changed serious its SHA-256; another one when its launch ended",
        "not_compared note 1 of 6 records: cannot be read; digests",
    ),
    "a forced launch": ([(launched.launch, 2, 0)], "measured_again note / 2 times; once each; The last one counts"),
    "a line that a crash cut short": ([(cut_short, 2)], *CUT),
    "a launch after that": ([(cut_short, 2), (launched.launch, 2, 3)], *CUT),
    # Later launches found the line that is incomplete here.
    "a copy that was interrupted within a ledger": ([(cut_short, 1)], "ledger_broken warning 5 lines", *CUT),
    # It is no copy of the files of ranks.
    "numbers that were read again": (
        [(read_again,)],
        "record_changed serious generation: 2",
        "launch_unaccounted warning no line of the ledger",
    ),
    "two launchers in a folder without locks": (
        [(launch_without_locks,)],
        "ledger_broken warning line 7 follows on another line than the one before it; an unbroken chain; Two launchers",
    ),
    "backups": ([(copy_run, "r0-old", "r0 (copy)")], *["backup note a record; not used; Only folders"] * 2),
    # It says the same; the ledger knows that it is another file.
    "a record of a kit that recorded less": ([(of_an_older_kit,)], "record_changed serious its SHA-256"),
    "a point that was deleted and measured again": (
        [(partial(drop, nodes=1),), *((launched.launch, 1, repeat) for repeat in range(3))],
        "ledger_broken warning another ledger",
    ),
    # Before the last launch there, each with two lines.
    "a ledger that was removed": (
        [(delete, "tiny-nodes2*/*/ledger.jsonl")],
        f"ledger_broken {REMOVED}",
        f"not_compared note {NO_LEDGER}",
    ),
    "a rank that wrote on after its record": ([(write_on,)],),
    "pipes": ([(leave_pipes,)], f"ledger_broken {REMOVED}", f"not_compared note 1 {MISSING} / {NO_LEDGER}"),
}


@pytest.mark.parametrize(("changes", "texts"), [(changes, texts) for changes, *texts in CASES.values()], ids=CASES)
def test_misfortunes_and_what_is_no_fault(results, changes, texts):
    for change, *arguments in changes:
        change(results, *arguments)
    check(verified(results).findings, *texts)


@pytest.mark.parametrize("ends", ["killed", "start", "broadcast", "timed"])
def test_a_killed_launcher_a_full_disk_and_an_interruption(tmp_path, ends):
    """The same command goes on. A full disk leaves what a killed launcher leaves."""
    results, lost = tmp_path / "results", ["launch_unaccounted note r0 began / It is in progress"] * (ends == "killed")
    planned = f"launch_unaccounted warning planned / {launched.names()[5]}; all"
    launched.launch(results, 1, 0)
    launched.launch(results, 2, 0, ends=ends)
    check(verified(results).findings, *lost, planned)
    launched.launch(results, 2, 0)
    check(verified(results).findings, *lost, planned)


def test_launches_that_never_began_are_named_or_their_point(tmp_path):
    results, plan, rule = tmp_path / "results", launched.names(), "launch_unaccounted warning"
    launched.launch(results, 1, 0)
    check(verified(results).findings, f"{rule} planned / record: {', '.join(plan[1:5])} and 1 more; all")
    launched.launch(results, 1, 1)
    gone = f"{rule} points of the plan without a folder: {plan[1].removesuffix('/r0')}; all of the plan"
    check(verified(results).findings, gone, f"{rule} planned, and no line or record: {plan[4]}; all of the plan")


def test_a_launch_that_was_skipped_left_a_line(tmp_path):
    results, plan = tmp_path / "results", launched.names()
    for nodes, repeat in launched.PLAN[:5]:
        if (nodes, repeat) == (2, 1):
            ledger.append(home(results), ledger.Line("skip", 1, reason="the time is over"))
        else:
            launched.launch(results, nodes, repeat)
    check(verified(results).findings, f"launch_unaccounted warning planned / {plan[5]}")


def test_an_archive_holds_what_the_folder_holds(results):
    """Also the ledgers of points without a record; scrubbed, it has neither these nor the files of launches."""
    drop(results, "r0", "r1", "r2")
    launched.launch(results, 2, 3, ends="killed")
    collected = collect(results, scrubbed=False)
    in_archive = verify.verify(verify.in_archive(
        {f"results/{path}": text for path, text in (collected.records | collected.attachments).items()}
    )).findings  # fmt: skip
    assert [each.stated.partition(":")[0] for each in in_archive] == [
        each.stated.partition(":")[0] for each in verified(results).findings
    ]
    scrubbed = collect(results, scrubbed=True)
    assert not scrubbed.attachments
    check(
        verify.verify(verify.in_archive({f"results/{path}": text for path, text in scrubbed.records.items()})).findings,
        "not_compared note 3 of 3 records: scrubbed: ",
    )


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
    write_on(results)
    paths = [path for path in home(results).rglob("*.json*") if change(path.read_bytes()) != path.read_bytes()]
    for path in paths:
        path.write_bytes(change(path.read_bytes()))
    rewritten = [path for path in paths if path.name in ("record.json", "run.json")]
    check(verified(results).findings, *["rewritten note other bytes; those when its / Line ends"] * len(rewritten))
    assert verified(results).remade == 6
    assert len(record.find(results)) == 6
    assert not Study(results).left_out


def test_a_backup_is_no_record(results):
    copy_run(results, "r0-old")
    shutil.copy(home(results) / "r1" / RECORD_NAME, home(results) / "r1" / "record.json.orig")
    assert verified(results).records == len(record.find(results)) == 6


def test_a_record_elsewhere_is_verified_by_the_files_in_its_folder(results, tmp_path):
    alone = tmp_path / "elsewhere" / "mine"
    shutil.copytree(home(results) / "r1", alone)
    (finding,) = verify.verify(verify.on_disk([str(alone / RECORD_NAME)])).findings
    assert finding.stated == "1 of 1 records: no ledger: launches that were dropped do not show"
    assert [point.folder for point in verify.on_disk(["/record.json", "/mine/record.json"])] == ["/"]  # no two above it


def test_the_path_of_a_point_is_relative_in_a_folder_above_its_experiment(results, monkeypatch):
    folder = home(results)
    for here, path in ((results, folder.relative_to(results)), (folder.parents[1], folder)):
        monkeypatch.chdir(here)
        assert verify.on_disk([str(folder / "r1" / RECORD_NAME)])[-1].folder == str(path)
