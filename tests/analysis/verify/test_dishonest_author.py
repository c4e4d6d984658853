"""What shows of an author who has the source, and drops, repeats, renumbers, exchanges or edits real launches."""

import json
import shutil
from pathlib import Path

import msgspec
import pytest

from analysis.archive import manifest
from analysis.verify.remade import SCRUBBED
from record import ledger, protocol
from record import run_files as files
from record import schema as record
from record.schema import RECORD_NAME
from tests.helpers import launched
from tests.helpers.launched import found, home, said, verified


@pytest.fixture
def results(tmp_path) -> Path:
    return launched.results(tmp_path / "results")


def rewritten(path: Path, change) -> None:
    """Change a record, with its own SHA-256."""
    run = record.load(path)
    change(run)
    path.write_bytes(record.dumps(run))


def with_parts(folder: Path) -> None:
    """Halve the steps of a launch in the files of its ranks, and make its record again of them."""
    run = record.load(folder / RECORD_NAME)
    for path in protocol.part_paths(folder):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line["step_times_s"] = [time_s / 2 for time_s in line.get("step_times_s", [])]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    launched.assembled(folder, run)


def with_ledger(folder: Path) -> None:
    """Make the ledger of a point agree with an edited record: its line, and all after it."""
    path = folder.parent / ledger.NAME
    texts, previous = [], ""
    for text in path.read_bytes().splitlines():
        line = msgspec.structs.replace(msgspec.json.decode(text, type=ledger.Line), previous=previous)
        if line.event == "end" and files.run_folder(folder.parent, line.repeat, line.generation) == folder:
            run = record.load(folder / RECORD_NAME)
            line = msgspec.structs.replace(line, at=run.ended_at, record=files.digest(folder / RECORD_NAME))
        texts.append(msgspec.json.encode(line))
        previous = manifest.digest(texts[-1])
    path.write_bytes(b"".join(text + b"\n" for text in texts))


def test_the_worst_launch_dropped(results):
    shutil.rmtree(home(results) / "r1")
    said(results, "launch_unaccounted warning r1 began / ended complete; no record")


def test_a_killed_launch_dropped(results):
    shutil.rmtree(launched.launch(results, 2, 3, ends="killed"))
    said(results, "launch_unaccounted warning r3 began / nothing of it is left")


def test_the_worst_launch_dropped_and_the_rest_renumbered(results):
    shutil.rmtree(home(results) / "r1")
    (home(results) / "r2").rename(home(results) / "r1")
    rewritten(home(results) / "r1" / RECORD_NAME, lambda run: setattr(run, "repeat", 1))
    texts = " ".join(" ".join(finding) for finding in found(results))
    assert "record_changed serious repeat: 1" in texts  # run.json says 2
    assert "r2 began" in texts


def test_a_point_dropped(results):
    shutil.rmtree(home(results, 1))
    said(
        results,
        f"launch_unaccounted warning points of the plan without a folder: {launched.names()[0].rpartition('/')[0]}",
    )


def test_a_launch_repeated_until_it_pleased(results):
    launched.launch(results, 2, 0, times_of=3)
    launched.launch(results, 2, 0, times_of=4)
    said(results, "measured_again note / r0 3 times")
    shutil.rmtree(home(results) / "r0")
    shutil.rmtree(home(results) / "r0.2")
    said(results, "measured_again", "warning r0 began / no record", "warning r0.2 began / no record")


def test_a_record_edited(results):
    path = home(results) / "r1" / RECORD_NAME
    rewritten(path, lambda run: run.ranks[0].step_times_s.__setitem__(0, 0.003))
    said(results, "record_changed serious ranks[0].step_times_s[0]: 0.003")


def shortened(run: record.RunRecord) -> None:
    for rank in run.ranks:
        rank.step_times_s = [0.8 * time_s for time_s in rank.step_times_s]


def as_an_old_one(run: record.RunRecord) -> None:
    run.ledger_line, run.sources = "", {}


@pytest.mark.parametrize(
    "edit",
    [
        lambda run: (shortened(run), setattr(run, "ledger_line", "")),
        lambda run: (shortened(run), as_an_old_one(run)),
        lambda run: (shortened(run), run.notes.append(SCRUBBED)),
        lambda run: setattr(run, "job_s", run.job_s + 30),
        lambda run: setattr(run, "started_at", "2026-11-20T10:00:00+00:00"),
        lambda run: setattr(run, "cores_shared", not run.cores_shared),
        lambda run: setattr(run, "status", "failed"),
    ],
)
def test_a_record_does_not_decide_whether_it_is_compared(results, edit):
    rewritten(home(results) / "r1" / RECORD_NAME, edit)
    assert [finding.rule for finding in verified(results).serious] == ["record_changed"]
    assert verified(results).remade == 5


def test_a_record_of_an_older_version_is_compared_with_the_ledger(results):
    path = home(results) / "r1" / RECORD_NAME
    rewritten(path, shortened)
    text = path.read_bytes().replace(b'"schema_version":%d' % record.SCHEMA_VERSION, b'"schema_version":5')
    path.write_bytes(
        text.replace(json.loads(text)["sha256"].encode(), record.digest(text, json.loads(text)["sha256"]).encode())
    )
    assert record.load(path).schema_version == 5
    said(results, "record_changed serious its SHA-256", "not_compared note")


@pytest.mark.parametrize(
    ("edit", "named"),
    [
        (lambda run: run.config["measure"].pop("precision_fraction"), "config.measure.precision_fraction"),
        (lambda run: setattr(run, "started_at", "2026-11-20T10:00:00+00:00"), "started_at"),
    ],
)
def test_the_last_record_edited_with_the_ledger(results, edit, named):
    launched.launch(results, 2, 3)
    rewritten(home(results) / "r3" / RECORD_NAME, edit)
    with_ledger(home(results) / "r3")
    said(results, f"record_changed serious {named}")


def test_the_best_launch_copied_over_another(results):
    best = home(results) / "r1"
    shutil.copy(best / RECORD_NAME, home(results) / "r0" / RECORD_NAME)
    copy = "launch_unaccounted warning rank-0.host0.7.jsonl"
    said(results, "record_changed serious", copy)
    for path in best.iterdir():  # with its files
        shutil.copy(path, home(results) / "r0" / path.name)
    said(results, *["record_changed serious its SHA-256"] * 2, copy)  # also of run.json


@pytest.mark.parametrize(
    ("field", "value", "stated"),
    [("status", "failed", "its end is failed"), ("at", "2026-11-20T10:00:00+00:00", "it ended at 2026-11-20")],
)
def test_the_last_line_of_a_ledger_edited(results, field, value, stated):
    path = home(results) / ledger.NAME
    *before, last = path.read_bytes().splitlines(keepends=True)
    line = msgspec.structs.replace(msgspec.json.decode(last, type=ledger.Line), **{field: value})
    path.write_bytes(b"".join(before) + msgspec.json.encode(line) + b"\n")
    said(results, f"ledger_broken serious / {stated}")


@pytest.mark.parametrize("at", ["", "yesterday", "2026-11-20T10:00:00"])  # the last one is in no zone
def test_lines_without_a_time(results, at):
    path, run = home(results) / ledger.NAME, home(results) / "r2" / RECORD_NAME
    *before, begin, end = (msgspec.json.decode(text, type=ledger.Line) for text in path.read_bytes().splitlines())
    begun = msgspec.json.encode(msgspec.structs.replace(begin, at=""))
    rewritten(run, lambda run: (setattr(run, "ended_at", at), setattr(run, "ledger_line", manifest.digest(begun))))
    end = msgspec.structs.replace(end, at=at, previous=manifest.digest(begun), record=files.digest(run))
    path.write_bytes(
        b"".join(text + b"\n" for text in (*map(msgspec.json.encode, before), begun, msgspec.json.encode(end)))
    )
    said(results, f"ledger_broken serious / from '' to '{at}'")


def test_the_newest_launches_of_a_point_dropped_with_their_lines(results):
    """A later launch of another point knows them; of the newest of all only the plan does."""
    path = home(results, 1) / ledger.NAME
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:4]))
    shutil.rmtree(home(results, 1) / "r2")
    said(results, "ledger_broken warning 4 lines", f"launch_unaccounted warning planned / {launched.names()[4]}")


def test_a_record_edited_with_its_parts(results):
    with_parts(home(results) / "r1")
    said(results, "record_changed serious its SHA-256")


def test_a_record_edited_with_its_parts_and_the_ledger(results):
    """Of the last launch of a point nothing shows; of another one the records after it name other lines."""
    with_parts(home(results) / "r2")
    with_ledger(home(results) / "r2")
    assert found(results) == []
    with_parts(home(results) / "r0")
    with_ledger(home(results) / "r0")
    said(
        results,
        *["ledger_broken serious / the line of its beginning"] * 2,
        "ledger_broken serious another line 4",
    )


def test_parts_of_two_launches_exchanged(results):
    for path in protocol.part_paths(home(results) / "r0"):
        other = home(results) / "r1" / path.name
        content = path.read_bytes()
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)
    said(results, *["record_changed serious rank-0.host0.7.jsonl: SHA-256"] * 2)


def cut(results: Path, *lines: slice) -> None:
    """Keep only these lines of a ledger."""
    path = home(results) / ledger.NAME
    before = path.read_bytes().splitlines(keepends=True)
    path.write_bytes(b"".join(line for part in lines for line in before[part]))


def test_the_tail_of_the_ledger_cut(results):
    cut(results, slice(-2))
    said(results, "launch_unaccounted warning no line of the ledger")
    shutil.rmtree(home(results) / "r2")  # with its launch: as if it had been interrupted before
    said(results, f"launch_unaccounted warning planned / {launched.names()[5]}")


def test_a_line_removed_from_the_middle(results):
    cut(results, slice(2), slice(4, None))
    shutil.rmtree(home(results) / "r1")
    said(
        results,
        "ledger_broken serious line 3",
        "ledger_broken serious another line 4",
        f"launch_unaccounted warning planned, and no line or record: {launched.names()[3]}",
    )


def test_a_launch_of_another_machine_merged_in(results, tmp_path):
    other = launched.launch(tmp_path / "other", 2, 3)
    shutil.copytree(other, home(results) / "r3")
    said(results, "launch_unaccounted warning no line of the ledger")


def test_a_folder_of_another_machine_merged_over(results, tmp_path):
    launched.launch(tmp_path / "other", 2, 3)
    shutil.copytree(tmp_path / "other", results, dirs_exist_ok=True)
    said(results, *["launch_unaccounted warning no line of the ledger"] * 3, "ledger_broken warning another ledger")


@pytest.mark.parametrize("text", ["[]", "[" * 100_000, '{"config": 5}', '{"config": {}, "plan": 3}'])
def test_a_file_that_is_made_to_break_the_reader(results, text):
    path = home(results) / "r1" / "run.json"
    path.write_text(text)
    rewritten(home(results) / "r1" / RECORD_NAME, lambda run: run.sources.update({"run.json": files.digest(path)}))
    (home(results) / "r2" / "rank-0.host0.7.jsonl").write_text(text)
    assert {rule for rule, severity, _ in found(results) if severity == "serious"} == {"record_changed"}
