import errno
from pathlib import Path

import pytest

from tests.helpers.bare_record import bare_record
from train.record import files
from train.record.record import RECORD_NAME, dumps


def leave(folder: Path, **changes) -> None:
    (folder / RECORD_NAME).write_bytes(dumps(bare_record(**changes)))


def test_generations_add_and_replace_nothing(tmp_path):
    point = files.point_folder(tmp_path, "weak_scaling", "tiny-nodes1", "0123456789abcdef")
    assert point == tmp_path / "weak_scaling/tiny-nodes1/01234567"
    first, generation = files.new_run(point, 0)
    assert (first.name, generation) == ("r0", 1)
    second, generation = files.new_run(point, 0)
    assert (second.name, generation) == ("r0.2", 2)
    assert files.new_run(point, 1)[0].name == "r1"
    assert files.generations(point, 0) == [1, 2]


def test_only_a_complete_readable_record_counts_as_measured(tmp_path):
    point = tmp_path / "point"
    assert files.completed(point, 0) is None
    leave(files.new_run(point, 0)[0], job_s=7.0)
    leave(files.new_run(point, 0)[0], status="failed")
    (files.new_run(point, 0)[0] / RECORD_NAME).write_text("{")
    result = files.completed(point, 0)
    assert result is not None
    assert result.job_s == 7.0
    assert files.completed(point, 1) is None


def test_a_file_is_replaced_whole_and_nothing_else_is_left(tmp_path):
    path = tmp_path / "rendezvous"
    for content in (b"first", b"second"):
        files.write_whole(path, content)
        assert path.read_bytes() == content
    assert list(tmp_path.iterdir()) == [path]


def test_a_file_that_cannot_be_written_leaves_the_one_before(tmp_path):
    path = tmp_path / "rendezvous"
    path.write_bytes(b"first")
    (tmp_path / ".rendezvous.writing").mkdir()
    with pytest.raises(OSError, match="writing"):
        files.write_whole(path, b"second")
    assert path.read_bytes() == b"first"


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


def tree(root, step: str = "a = 1\n"):
    for name, text in (("train/loop/step.py", step), ("conf/model/tiny.yaml", "name: tiny\n"), ("train/x.pyc", "")):
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


def test_copies_agree_whatever_else_lies_beside_them(tmp_path):
    one, two = (files.source_files(tree(tmp_path / name)) for name in ("one", "two"))
    assert list(one) == ["conf/model/tiny.yaml", "train/loop/step.py"]
    assert files.source_digest(one) == files.source_digest(two)
    assert files.differing(one, two) == []


def test_a_changed_or_missing_file_is_named(tmp_path):
    one = files.source_files(tree(tmp_path / "one"))
    changed = files.source_files(tree(tmp_path / "two", step="a = 2\n"))
    assert files.source_digest(one) != files.source_digest(changed)
    assert files.differing(one, changed) == ["train/loop/step.py"]
    without = {path: text for path, text in one.items() if path != "conf/model/tiny.yaml"}
    assert files.differing(one, without) == ["conf/model/tiny.yaml"]


def test_this_tree_holds_the_code_and_its_configuration():
    assert {"train/record/files.py", "conf/config.yaml"} <= set(files.source_files())
