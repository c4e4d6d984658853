import errno

import pytest

from record import run_files as files
from record.schema import RECORD_NAME, dumps
from tests.helpers.bare_record import bare_record


def test_generations_add_and_replace_nothing(tmp_path):
    point = files.point_folder(tmp_path, "weak_scaling", "tiny-nodes1", "0123456789abcdef")
    assert point == tmp_path / "weak_scaling/tiny-nodes1/01234567"
    runs = [files.new_run(point, repeat) for repeat in (0, 0, 1)]
    assert [(folder.name, generation) for folder, generation in runs] == [("r0", 1), ("r0.2", 2), ("r1", 1)]
    assert files.generations(point, 0) == [1, 2]


def test_only_a_complete_readable_record_counts_as_measured(tmp_path):
    assert files.completed(tmp_path) == files.completed(tmp_path / "nowhere") == {}
    for text in (dumps(bare_record(job_s=7.0)), dumps(bare_record(status="failed")), b"{"):
        (files.new_run(tmp_path, 0)[0] / RECORD_NAME).write_bytes(text)
    assert files.completed(tmp_path) == {0: [tmp_path / "r0"]}
    assert files.outcomes(tmp_path)[0].job_s == 7.0
    (files.new_run(tmp_path, 0)[0] / RECORD_NAME).write_bytes(dumps(bare_record(job_s=8.0)))
    assert files.completed(tmp_path) == {0: [tmp_path / "r0.4", tmp_path / "r0"]}
    edited = dumps(bare_record()).replace(b'"job_s":5.0', b'"job_s":4.0')
    (files.new_run(tmp_path, 1)[0] / RECORD_NAME).write_bytes(edited)
    newer = dumps(bare_record()).replace(b'"schema_version":6', b'"schema_version":9')
    (files.new_run(tmp_path, 2)[0] / RECORD_NAME).write_bytes(newer)
    assert [*files.completed(tmp_path)] == [0]


def test_a_record_is_read_once_in_a_process(tmp_path, monkeypatch):
    (files.new_run(tmp_path, 0)[0] / RECORD_NAME).write_bytes(dumps(bare_record()))
    assert files.outcome(tmp_path / "r0")
    monkeypatch.setattr(files, "load_outcome", None)
    assert files.outcome(tmp_path / "r0")


def test_a_file_is_replaced_whole_or_not_at_all(tmp_path):
    path = tmp_path / "rendezvous"
    for content in (b"first", b"second"):
        files.write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]
    (tmp_path / ".rendezvous.writing").mkdir()
    with pytest.raises(OSError, match="writing"):
        files.write_whole(path, b"third")
    assert path.read_bytes() == b"second"


def test_writing_never_replaces(tmp_path):
    path = tmp_path / "record.json"
    files.write_once(path, b"first")
    with pytest.raises(OSError, match="ever replaced") as raised:
        files.write_once(path, b"second")
    assert raised.value.filename == str(path)
    assert path.read_bytes() == b"first"
    assert list(tmp_path.iterdir()) == [path]


def test_a_full_disk_leaves_no_half_record(tmp_path, monkeypatch):
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device; the record was not written"):
        files.write_once(tmp_path / "record.json", b"text")
    assert list(tmp_path.iterdir()) == []


def test_changed_and_missing_files_of_two_copies_are_named(tmp_path):
    def source(name: str, step: str = "a = 1\n"):
        root = tmp_path / name
        for path, text in (("train/loop/step.py", step), ("conf/model/tiny.yaml", "name: tiny\n"), ("train/x.pyc", "")):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return files.source_files(root)

    first, same, changed = source("first"), source("same"), source("changed", "a = 2\n")
    assert list(first) == ["conf/model/tiny.yaml", "train/loop/step.py"]
    lacking = {path: text for path, text in first.items() if path != "conf/model/tiny.yaml"}
    for second, names in ((same, []), (changed, ["train/loop/step.py"]), (lacking, ["conf/model/tiny.yaml"])):
        assert files.differing(first, second) == names
        assert (files.source_digest(first) == files.source_digest(second)) is not bool(names)
    assert {"record/run_files.py", "conf/config.yaml"} <= set(files.source_files())
