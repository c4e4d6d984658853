import errno
import os
import stat
from contextlib import nullcontext

import pytest

from record import ledger, schema
from record import run_files as files
from record.schema import RECORD_NAME, dumps
from tests.helpers.bare_record import bare_record


def test_generations_add_and_replace_nothing(tmp_path):
    point = files.point_folder(tmp_path, "weak_scaling", "tiny-nodes1", "0123456789abcdef")
    assert point == tmp_path / "weak_scaling/tiny-nodes1/01234567"
    runs = [files.new_run(point, repeat) for repeat in (0, 0, 1)]
    assert [(folder.name, generation) for folder, generation in runs] == [("r0", 1), ("r0.2", 2), ("r1", 1)]
    assert [folder.name for folder in files.runs(point)[0]] == ["r0", "r0.2"]
    assert files.checkpoints(point / "r0.2") == point / "checkpoints-r0"


def test_two_launchers_never_share_the_folder_of_a_run(tmp_path, monkeypatch):
    files.new_run(tmp_path, 0)
    monkeypatch.setattr(files, "_numbers", lambda point: [])  # it read the folder before the other one made it
    with pytest.raises(FileExistsError):
        files.new_run(tmp_path, 0)


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


def test_only_a_folder_with_the_exact_name_of_a_run_is_one(tmp_path):
    point = tmp_path / "e/p/0123abcd"
    for name in ("r0", "r0.2", "r12", "r0 (copy)", "r00", "r0.1", "r1.02", "r\u0663", "r", "R1", "r1~", "r1.2.3"):
        files.write_file(point / name / RECORD_NAME, b"{}")
    assert sorted(path.name for path in point.iterdir() if files.is_run(path.name)) == ["r0", "r0.2", "r12"]
    (point / "r3").write_text("")
    assert files.runs(point) == {0: [point / "r0", point / "r0.2"], 12: [point / "r12"]}
    assert [path.parent.name for path in schema.find(tmp_path)] == ["r0", "r0.2", "r12"]


def refuse(monkeypatch, call: str, number: int) -> None:
    def refused(*arguments, **others):
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(os, call, refused)


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("number", [errno.EPERM, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EACCES])
@pytest.mark.parametrize("call", ["link", "fsync"])
def test_a_file_system_that_lacks_a_call_loses_nothing(tmp_path, monkeypatch, replace, call, number):
    path = tmp_path / "record.json"
    refuse(monkeypatch, call, number)
    files.write_file(path, b"first", replace=replace)
    with nullcontext() if replace else pytest.raises(FileExistsError, match="ever replaced") as raised:
        files.write_file(path, b"second", replace=replace)
    assert replace or raised.value.filename == str(path)
    assert [file.read_bytes() for file in tmp_path.iterdir()] == [b"second" if replace else b"first"]


@pytest.mark.parametrize("replace", [True, False])
@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EIO])
@pytest.mark.parametrize("calls", [("fsync",), ("link", "rename", "replace")])
def test_a_file_that_cannot_be_written_leaves_none_and_the_one_before(tmp_path, monkeypatch, replace, number, calls):
    (tmp_path / "old").write_bytes(b"before")
    for call in calls:
        refuse(monkeypatch, call, number)
    for name in ("new", "old") if replace else ("new",):
        with pytest.raises(OSError, match=f"{os.strerror(number)}; it was not written") as raised:
            files.write_file(tmp_path / name, b"text", replace=replace)
        assert raised.value.filename == str(tmp_path / name)
    assert [(path.name, path.read_bytes()) for path in tmp_path.iterdir()] == [("old", b"before")]


def test_a_name_that_nfs_gave_although_it_answered_that_it_exists_is_given(tmp_path, monkeypatch):
    link = os.link

    def answered_twice(source, target):
        link(source, target)
        raise FileExistsError(errno.EEXIST, "File exists")

    monkeypatch.setattr(os, "link", answered_twice)
    files.write_file(tmp_path / "record.json", b"first")
    with pytest.raises(FileExistsError):
        files.write_file(tmp_path / "record.json", b"second")
    assert (tmp_path / "record.json").read_bytes() == b"first"


def write_in_a_context(path, content):
    with files.whole_file(path, replace=True) as file:
        file.write(content)


WRITERS = [write_in_a_context, files.write_file]
APPENDERS = [files.append, lambda path, content: ledger.append(path.parent, ledger.Line("skip", 0))]


@pytest.mark.parametrize("write", [*WRITERS, *APPENDERS])
def test_what_was_written_is_on_the_disk_before_it_counts_and_its_name_after(tmp_path, monkeypatch, write):
    """Also that of a new folder. Every call is real, but os.fsync, which notes how much of which file it has.

    A file has the usual permissions, and none stays open.
    """
    events: list[tuple[str, int]] = []

    def noted(call):
        original = getattr(os, call)

        def function(*arguments, **others):
            events.append(("named", 0))
            return original(*arguments, **others)

        return function

    def synchronized(descriptor: int) -> None:
        status = os.fstat(descriptor)
        events.append(("folder", 0) if stat.S_ISDIR(status.st_mode) else ("file", status.st_size))

    for call in ("link", "rename", "replace"):
        monkeypatch.setattr(os, call, noted(call))
    monkeypatch.setattr(os, "fsync", synchronized)
    descriptors = os.listdir("/proc/self/fd")
    folder, in_folder = files.new_run(tmp_path / "point", 0)[0], ("folder", 0)
    assert events == [in_folder] * 2
    write(folder / "new/file" if write in WRITERS else folder / "file", b"content")
    assert os.listdir("/proc/self/fd") == descriptors
    [path] = (path for path in folder.rglob("*") if path.is_file())
    (tmp_path / "usual").touch()
    assert path.stat().st_mode == (tmp_path / "usual").stat().st_mode
    assert write is APPENDERS[1] or path.read_bytes() == b"content"
    content = ("file", path.stat().st_size)
    whole = [in_folder, content, ("named", 0), in_folder]
    assert events[2:] == (whole if write in WRITERS else [content, in_folder])


def test_changed_and_missing_files_of_two_copies_are_named(tmp_path):
    def source(name: str, step: str = "a = 1\n"):
        root = tmp_path / name
        texts = {"train/loop/step.py": step, "train/a.py": "", "train/x.pyc": "", "train/tools/a.py": ""}
        for path, text in (texts | {"train/launch/status.py": "", "train/launch/start/a.py": ""}).items():
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        return files.source_files(root)

    first, same, changed = source("first"), source("same"), source("changed", "a = 2\n")
    assert list(first) == ["train/a.py", "train/launch/start/a.py", "train/loop/step.py"]
    lacking = {path: text for path, text in first.items() if path != "train/a.py"}
    for second, names in ((same, []), (changed, ["train/loop/step.py"]), (lacking, ["train/a.py"])):
        assert files.differing(first, second) == names
        assert (files.source_digest(first) == files.source_digest(second)) is not bool(names)
    assert files.source_digest(dict(reversed(first.items()))) == files.source_digest(first)
    assert {"record/run_files.py", "train/loop/step.py", "common/number.py"} <= set(files.source_files())


def test_the_code_is_that_of_the_first_call_and_files_added_since_do_not_count(tmp_path):
    path = tmp_path / "train/step.py"
    path.parent.mkdir()
    path.write_text("a = 1")
    begun = files.source_files(tmp_path)
    (tmp_path / "train/mine.py").write_text("")
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/site.yaml").write_text("")
    assert files.source_files(tmp_path) == begun == files.digests(begun, tmp_path)
    path.write_text("a = 2")
    assert files.differing(begun, files.digests(begun, tmp_path)) == ["train/step.py"]
    path.unlink()
    assert files.digests(begun, tmp_path) == {}
    assert files.conf_files(tmp_path) == {"conf/site.yaml": "e3b0c44298fc"}  # the SHA-256 of nothing
