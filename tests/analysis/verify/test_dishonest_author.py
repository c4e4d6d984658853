"""What shows of an author who has the source, and drops, repeats, renumbers, exchanges or edits real launches."""

import json
import shutil
from functools import partial
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
from tests.helpers.launched import check, drop, home, keep_lines, verified


def rename(results: Path, old: str, new: str) -> None:
    (home(results) / old).rename(home(results) / new)


def shortened(run: record.RunRecord) -> None:
    for rank in run.ranks:
        rank.step_times_s = [0.8 * time_s for time_s in rank.step_times_s]


def put(**fields):
    return lambda run: vars(run).update(fields)


def edit(results: Path, run_name: str, *changes) -> None:
    """Change a record, with its own SHA-256."""
    path = home(results) / run_name / RECORD_NAME
    run = record.load(path)
    for change in changes:
        change(run)
    path.write_bytes(record.dumps(run))


def edit_with_parts(results: Path, run_name: str) -> None:
    """Halve the steps of a launch in the files of its ranks, and make its record again of them."""
    folder = home(results) / run_name
    run = record.load(folder / RECORD_NAME)
    for path in protocol.part_paths(folder):
        lines = [json.loads(line) for line in path.read_text().splitlines()]
        for line in lines:
            line["step_times_s"] = [time_s / 2 for time_s in line.get("step_times_s", [])]
        path.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    launched.assembled(folder, run)


def with_ledger(results: Path, run_name: str) -> None:
    """Make the ledger of a point agree with an edited record: its line, and all after it."""
    path, folder = home(results) / ledger.NAME, home(results) / run_name
    texts, previous = [], ""
    for text in path.read_bytes().splitlines():
        line = msgspec.structs.replace(msgspec.json.decode(text, type=ledger.Line), previous=previous)
        if line.event == "end" and files.run_folder(folder.parent, line.repeat, line.generation) == folder:
            run = record.load(folder / RECORD_NAME)
            line = msgspec.structs.replace(line, at=run.ended_at, record=files.digest(folder / RECORD_NAME))
        texts.append(msgspec.json.encode(line))
        previous = manifest.digest(texts[-1])
    path.write_bytes(b"".join(text + b"\n" for text in texts))


def edit_last_line(results: Path, field: str, value: str) -> None:
    path = home(results) / ledger.NAME
    *before, last = path.read_bytes().splitlines(keepends=True)
    line = msgspec.structs.replace(msgspec.json.decode(last, type=ledger.Line), **{field: value})
    path.write_bytes(b"".join(before) + msgspec.json.encode(line) + b"\n")


def exchange_parts(results: Path) -> None:
    for path in protocol.part_paths(home(results) / "r0"):
        other = home(results) / "r1" / path.name
        content = path.read_bytes()
        path.write_bytes(other.read_bytes())
        other.write_bytes(content)


def merge(results: Path, whole_folder: bool) -> None:
    """Copy a launch of another machine into the results, or all that it left over them."""
    other = results.parent / "other"
    run = launched.launch(other, 2, 3)
    shutil.copytree(
        other if whole_folder else run, results if whole_folder else home(results) / "r3", dirs_exist_ok=True
    )


def overwrite(results: Path, *names: str) -> None:
    """Copy these files of the best launch over those of another, or all of them."""
    for path in (home(results) / "r1").iterdir():
        if path.name in names or not names:
            shutil.copy(path, home(results) / "r0")


PLAN = launched.names()
COPIED = "launch_unaccounted warning rank-0.host0.7.jsonl; another file than / No two launches measure the same times"
NO_BEGIN = "launch_unaccounted warning no line of the ledger is that of its beginning; one; It is of another folder"
BEGUN_CHANGED = "record_changed serious its SHA-256; another one when its launch began; It was changed"
CHANGED = "record_changed serious its SHA-256; another one when its launch ended; It was changed"
BROKEN = "ledger_broken serious another line 4; the 4 lines that / found; It was changed after that."
ANOTHER = "ledger_broken warning another ledger; the / It was deleted and measured again"
OTHER_FILE = "record_changed serious rank-0.host0.7.jsonl: SHA-256 / the file has another; The record is made of"
NO_RECORD = "no record; a record of each launch; It was lost"
EARLY = "2026-11-20T10:00:00+00:00"
# What the author does, and the findings. The launches are r0, r1 and r2 of two points, in turn.
CASES = {
    "the worst launch dropped": ([(drop, "r1")], f"launch_unaccounted warning r1 began / ended complete; {NO_RECORD}"),
    "a killed launch dropped": (
        [(launched.launch, 2, 3, None, None, "killed"), (drop, "r3")],
        "launch_unaccounted warning r3 began / nothing of it is left",
    ),
    "the rest renumbered": (
        [(drop, "r1"), (rename, "r2", "r1"), (edit, "r1", put(repeat=1))],
        "record_changed serious repeat: 1",  # run.json says 2
        BEGUN_CHANGED,
        "r2 began",
    ),
    "a point dropped": (
        [(partial(drop, nodes=1),)],
        f"launch_unaccounted warning points of the plan without a folder: {PLAN[0][:-3]}; all of the plan; Others",
    ),
    "a launch repeated until it pleased": (
        [(launched.launch, 2, 0, 3), (launched.launch, 2, 0, 4), (drop, "r0", "r0.2")],
        f"measured_again note {PLAN[1]} 3 times",
        "warning r0 began / no record",
        "warning r0.2 began / no record",
    ),
    "a record edited": (
        [(edit, "r1", lambda run: run.ranks[0].step_times_s.__setitem__(slice(2), [1 / 300] * 2))],
        "record_changed serious ranks[0].step_times_s[0]: 0.00333333, and 1 more values; 0.0317998, of the files",
    ),
    "the last record edited with the ledger": (
        [(launched.launch, 2, 3), (edit, "r3", put(started_at="2026-11-27T10:45:13+00:00")), (with_ledger, "r3")],
        "record_changed serious started_at: 2026-11-27T10:45:13+00:00; 2026-11-27T10:45:11+00:00, of the files",
    ),
    "a key of the last one removed with the ledger": (
        [
            (launched.launch, 2, 3),
            (edit, "r3", lambda run: run.config["measure"].pop("precision_fraction")),
            (with_ledger, "r3"),
        ],
        "record_changed serious config.measure.precision_fraction: None; 0.05, of the files beside it",
    ),
    "the last one renumbered with the ledger, and without files": (
        [(edit, "r2", put(repeat=5, sources={})), (with_ledger, "r2")],
        "record_changed serious r5, generation 1, in the folder r2; r2, when it began; It was renumbered or moved.",
        "not_compared note",
    ),
    "the best record copied over another": ([(overwrite, RECORD_NAME)], "record_changed serious", COPIED),
    "the best launch copied over another": ([(overwrite,)], BEGUN_CHANGED, CHANGED, COPIED),
    "the ledger's end edited": ([(edit_last_line, "status", "failed")], "ledger_broken serious / its end is failed"),
    "the ledger's time edited": ([(edit_last_line, "at", EARLY)], "ledger_broken serious / it ended at 2026-11-20"),
    # A later launch of another point knows them; of the newest of all only the plan does.
    "the newest launches of a point dropped with their lines": (
        [(partial(keep_lines, nodes=1), slice(4)), (partial(drop, nodes=1), "r2")],
        "ledger_broken warning 4 lines; the 6 lines that / found; Lines were removed",
        f"launch_unaccounted warning planned, and no line or record: {PLAN[4]}; all of the plan; Interrupted",
    ),
    "a record edited with its parts": ([(edit_with_parts, "r1")], CHANGED),
    "the last one edited with its parts and the ledger": ([(edit_with_parts, "r2"), (with_ledger, "r2")],),  # no shows
    # The records after it name other lines.
    "one edited with its parts and the ledger": (
        [(edit_with_parts, "r0"), (with_ledger, "r0")],
        *["ledger_broken serious / the line of its beginning / as its record says; A line was changed after"] * 2,
        BROKEN,
    ),
    "parts of two launches exchanged": ([(exchange_parts,)], OTHER_FILE, OTHER_FILE),
    "the tail of the ledger cut": ([(keep_lines, slice(-2))], NO_BEGIN),
    "the last line cut": ([(keep_lines, slice(-1))], "launch_unaccounted warning no line / of its end; one; A full"),
    "the tail cut with its launch": (
        [(keep_lines, slice(-2)), (drop, "r2")],
        f"launch_unaccounted warning planned / {PLAN[5]}",
    ),
    "a line removed from the middle": (
        [(keep_lines, slice(2), slice(4, None)), (drop, "r1")],
        *("ledger_broken serious line 3 / an unbroken chain; A line was removed", BROKEN),
        f"launch_unaccounted warning planned, and no line or record: {PLAN[3]}",
    ),
    "a launch of another machine merged in": ([(merge, False)], NO_BEGIN),
    "a folder of another machine merged over": ([(merge, True)], *[NO_BEGIN] * 3, ANOTHER),
}


@pytest.mark.parametrize(("changes", "texts"), [(changes, texts) for changes, *texts in CASES.values()], ids=CASES)
def test_what_an_author_does_to_the_launches_shows(results, changes, texts):
    for change, *arguments in changes:
        change(results, *arguments)
    check(verified(results).findings, *texts)


@pytest.mark.parametrize(
    "changes",
    [
        (shortened, put(ledger_line="")),
        (shortened, put(ledger_line="", sources={})),
        (shortened, lambda run: run.notes.append(SCRUBBED)),
        (lambda run: put(job_s=run.job_s + 30)(run),),
        (put(started_at=EARLY),),
        (lambda run: put(cores_shared=not run.cores_shared)(run),),
        (put(status="failed"),),
        (put(environment=None),),
        (lambda run: run.ranks[0].step_times_s.pop(),),
    ],
)
def test_a_record_does_not_decide_whether_it_is_compared(results, changes):
    edit(results, "r1", *changes)
    verification = verified(results)
    assert [finding.rule for finding in verification.serious] == ["record_changed"]
    assert str(verification).startswith("5 of 6 records made again from their files; 1 ")  # changed, or not compared


@pytest.mark.parametrize(("field", "older"), [("schema_version", 5), ("kit_version", "0.9")])
def test_a_record_of_an_older_version_is_compared_with_the_ledger(results, field, older):
    path = home(results) / "r1" / RECORD_NAME
    edit(results, "r1", shortened)
    text, run = path.read_bytes(), json.loads(path.read_bytes())
    text = text.replace(f'"{field}":{json.dumps(run[field])}'.encode(), f'"{field}":{json.dumps(older)}'.encode())
    path.write_bytes(text.replace(run["sha256"].encode(), record.digest(text, run["sha256"]).encode()))
    assert getattr(record.load(path), field) == older
    check(verified(results).findings, CHANGED, f"not_compared note 1 of 6 records: only / version {older} of the")


STARTED = "2026-11-27T10:44:16+00:00"  # r2, which took 20.4 s


@pytest.mark.parametrize(
    ("begun_at", "at", "texts"),
    [
        ("", "", ["serious r2: from '' to ''; times in UTC; A line was changed."]),
        (STARTED, "yesterday", [f"serious r2: from '{STARTED}' to 'yesterday'; times in UTC"]),
        (STARTED, "2026-11-27T10:44:34", ["serious r2: / times in UTC"]),  # of no zone
        (STARTED, "2026-11-27T10:44:34+00:00", ["warning r2: a job of 20 s; at most 18 s between its lines; One was"]),
        (STARTED, "2026-11-27T10:44:35+00:00", []),  # of whole seconds: up to two more
    ],
)
def test_lines_without_a_time_or_with_too_little_for_the_job(results, begun_at, at, texts):
    path, run = home(results) / ledger.NAME, home(results) / "r2" / RECORD_NAME
    *before, begin, end = (msgspec.json.decode(text, type=ledger.Line) for text in path.read_bytes().splitlines())
    begin = msgspec.structs.replace(begin, at=begun_at)
    begun = manifest.digest(msgspec.json.encode(begin))
    edit(results, "r2", put(ended_at=at, ledger_line=begun))
    end = msgspec.structs.replace(end, at=at, previous=begun, record=files.digest(run))
    path.write_bytes(b"".join(msgspec.json.encode(line) + b"\n" for line in (*before, begin, end)))
    check(verified(results).findings, *texts)


@pytest.mark.parametrize("text", ["[]", "[" * 100_000, '{"config": 5}', '{"config": {}, "plan": 3}'])
def test_a_file_that_is_made_to_break_the_reader(results, text):
    path = home(results) / "r1" / "run.json"
    path.write_text(text)
    edit(results, "r1", lambda run: run.sources.update({"run.json": files.digest(path)}))
    (home(results) / "r2" / "rank-0.host0.7.jsonl").write_text(text)
    damaged = "record_changed serious a record; none can be made of its files"
    check(verified(results).findings, damaged, BEGUN_CHANGED, OTHER_FILE)
