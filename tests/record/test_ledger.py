import fcntl
import hashlib
import os
from threading import Event, Thread

import pytest

from record import ledger
from tests.helpers.bare_record import bare_record

AT = "2026-11-28T12:00:00+00:00"


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: path.symlink_to("other"), os.mkdir])
def test_what_is_no_file_in_place_of_a_ledger_is_named_and_not_written(tmp_path, make):
    """A pipe would wait for a reader for ever."""
    (tmp_path / "other").write_text("content")
    make(tmp_path / ledger.NAME)
    with pytest.raises(OSError, match=r"regular|symbolic|directory") as error:
        ledger.append(tmp_path, ledger.Line("skip", 0))
    assert error.value.filename == str(tmp_path / ledger.NAME)
    assert (tmp_path / "other").read_text() == "content"


def test_a_line_waits_for_the_writer_before_it_and_follows_its_line(tmp_path, monkeypatch):
    first = ledger.append(tmp_path, ledger.Line("skip", 0))
    asks, lock = Event(), fcntl.flock

    def noted(file, operation):
        asks.set()
        lock(file, operation)

    with (tmp_path / ledger.NAME).open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        monkeypatch.setattr(fcntl, "flock", noted)
        second = Thread(target=ledger.append, args=(tmp_path, ledger.Line("skip", 2)), daemon=True)
        second.start()
        assert asks.wait(60)
        file.write(b'{"event":"skip","repeat":1}\n')
    second.join(60)
    lines = [*ledger.lines((tmp_path / ledger.NAME).read_bytes())]
    assert [line.repeat for _, line in lines] == [0, 1, 2]
    assert lines[0][0] == first
    assert lines[2][1].previous == lines[1][0] == hashlib.sha256(b'{"event":"skip","repeat":1}').hexdigest()


def test_a_ledger_has_its_lines_whole_and_what_was_skipped_last(tmp_path, monkeypatch):
    monkeypatch.setattr(ledger, "now", lambda: AT)
    point, path = tmp_path / "point", tmp_path / "point/ledger.jsonl"
    (tmp_path / "other").mkdir()
    (tmp_path / "other/ledger.jsonl").symlink_to(path)
    (point / "r1").mkdir(parents=True)
    for name in ("run.json", "record.json"):
        (point / "r1" / name).touch()
    assert (ledger.skipped(point), ledger.states(tmp_path, ["point"])) == (set(), {})
    first, second = (ledger.append(point, ledger.Line("skip", repeat)) for repeat in range(2))
    third = ledger.begin(point / "r1", 1, 1, ["a", "b"])
    ledger.end(point / "r1", bare_record(repeat=1, ended_at="later"))
    assert path.read_bytes().startswith(b'{"event":"skip","repeat":0,"at":"2026-11-28T12:00:00+00:00"}\n{')
    with path.open("ab") as file:
        file.write(b'{"event":"skip","rep')  # by a launcher that was killed
    plan, empty = (hashlib.sha256(text).hexdigest() for text in (b'["a","b"]', b""))
    *digests, last, _ = (digest for digest, _ in ledger.lines(path.read_bytes()))
    assert digests == [first, second, third]
    assert [line for _, line in ledger.lines(path.read_bytes())] == [
        ledger.Line("skip", 0, 0, AT),
        ledger.Line("skip", 1, 0, AT, first),
        ledger.Line("begin", 1, 1, AT, second, plan, empty),
        ledger.Line("end", 1, 1, "later", third, status="complete", record=empty),
        None,
    ]
    assert ledger.skipped(point) == {0}
    assert ledger.states(tmp_path, ["point", "other", "missing"]) == {"point": (4, first, last)}


def test_a_file_system_without_locks_has_a_ledger(tmp_path, monkeypatch):
    def refused(file, operation):
        raise OSError(38, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", refused)
    digests = [ledger.append(tmp_path, ledger.Line("skip", repeat)) for repeat in range(2)]
    (_, first), (_, second) = ledger.lines((tmp_path / ledger.NAME).read_bytes())
    assert (first.previous, second.previous) == ("", digests[0])


def test_a_writer_whom_no_lock_holds_back_overwrites_no_line(tmp_path, monkeypatch):
    def meanwhile():
        monkeypatch.undo()
        ledger.append(tmp_path, ledger.Line("skip", 1))
        return AT

    monkeypatch.setattr(fcntl, "flock", lambda *_: None)
    monkeypatch.setattr(ledger, "now", meanwhile)
    ledger.append(tmp_path, ledger.Line("skip", 2))
    assert [line.repeat for _, line in ledger.lines((tmp_path / ledger.NAME).read_bytes())] == [1, 2]
