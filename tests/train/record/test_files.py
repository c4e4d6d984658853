import errno

import pytest

from train.record import files


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
