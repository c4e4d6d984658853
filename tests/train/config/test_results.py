import errno
import fcntl
import os
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from unittest.mock import Mock

import pytest

from record import run_files as files
from tests.helpers.needs import needs
from train.config.checks import ConfigError
from train.config.results import check_results, file_system


def test_results_that_cannot_be_written_are_an_error_before_anything_starts(tmp_path):
    check_results(tmp_path / "new" / "results")
    assert (tmp_path / "new" / "results").is_dir()
    (tmp_path / "file").write_text("")
    for wrong, why in ((tmp_path / "file", "a file"), (tmp_path / "file" / "results", "Not a directory")):
        with pytest.raises(ConfigError, match=f"results={wrong}: {why}; give a folder for records"):
            check_results(wrong)


@pytest.mark.parametrize(
    ("mode", "who"), [(0o755, None), (0o1777, None), (0o777, "everyone"), (0o2775, "the group 54321")]
)
@needs(root=True)
def test_results_that_others_may_exchange_are_refused_unless_they_are_trusted(tmp_path, mode, who):
    os.chown(tmp_path, 0, 54321)
    tmp_path.chmod(mode)
    if who is None:
        check_results(tmp_path)
        return
    with pytest.raises(ConfigError, match=rf"results={tmp_path}: {who} may write there.*system.trust_others=true"):
        check_results(tmp_path)
    check_results(tmp_path, trust_others=True)


def test_nobody_else_can_write_to_what_a_launch_makes(tmp_path):
    before = os.umask(0o002)  # of a project space
    try:
        check_results(tmp_path / "results")
        folder, _ = files.new_run(tmp_path / "results" / "point", 0)
        (folder / "run.json").write_text("{}")
    finally:
        os.umask(before)
    paths = [*tmp_path.rglob("*")]
    assert folder in paths
    assert [path for path in paths if path.stat().st_mode & 0o022] == []


REFUSED = Mock(side_effect=PermissionError(errno.EPERM, "Operation not permitted"))


@pytest.mark.parametrize(
    ("module", "call", "warning"),
    [
        (os, "link", None),
        (os, "chmod", None),
        (os, "fsync", "has no fsync: a power cut may lose"),
        (fcntl, "flock", "has no locks: start no two launches"),
    ],
)
def test_what_a_file_system_lacks_without_a_loss_is_at_most_a_warning(tmp_path, monkeypatch, module, call, warning):
    assert check_results(tmp_path) == []
    monkeypatch.setattr(module, call, REFUSED)
    warnings = check_results(tmp_path)
    assert [warning in line for line in warnings] == ([True] if warning else [])
    assert all(line.startswith(f"results={tmp_path}: {file_system(tmp_path)} has no ") for line in warnings)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(("call", "operation"), [("replace", "replace a file"), ("unlink", "remove a file")])
def test_what_a_launch_cannot_do_without_ends_it_before_it_measures(tmp_path, monkeypatch, call, operation):
    monkeypatch.setattr(os, call, REFUSED)
    with pytest.raises(ConfigError) as raised:
        check_results(tmp_path)
    assert f"results={tmp_path}: cannot {operation}: " in str(raised.value)
    assert f", on {file_system(tmp_path)}, and a launch needs it there; take a folder" in str(raised.value)


def test_a_file_system_that_replaces_what_exists_or_loses_what_is_added_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(files, "append", lambda path, content: None)
    with pytest.raises(ConfigError, match="cannot read what was written: b'once', not 'once more', on "):
        check_results(tmp_path)


@contextmanager
def exfat(folder: Path, mask: str) -> Iterator[Path]:
    """Mount a new exFAT file system, which has no hard links and no permissions, in a folder."""
    disk, place = folder / "disk", folder / "mounted"
    place.mkdir(exist_ok=True)
    disk.touch()
    os.truncate(disk, 16 << 20)
    loop = subprocess.run(["losetup", "--find", "--show", disk], check=True, capture_output=True, text=True)
    try:
        subprocess.run(["mkfs.exfat", loop.stdout.strip()], check=True, capture_output=True)
        subprocess.run(["mount.exfat-fuse", loop.stdout.strip(), place, "-o", f"umask={mask}"], check=True)
        try:
            yield place
        finally:
            subprocess.run(["umount", place], check=True)
    finally:
        subprocess.run(["losetup", "--detach", loop.stdout.strip()], check=True)


@pytest.mark.slow
@needs("mkfs.exfat", "mount.exfat-fuse", "losetup", root=True)
def test_a_record_is_written_once_where_there_are_no_hard_links_and_no_modes(tmp_path):
    with exfat(tmp_path, "077") as disk:
        assert check_results(disk / "results") == []
        run, _ = files.new_run(disk / "results", 0)
        with pytest.raises(PermissionError):
            os.link(disk, disk / "link")
        files.write_file(run / "record.json", b"first")
        with pytest.raises(FileExistsError, match="ever replaced"):
            files.write_file(run / "record.json", b"second")
        assert [path.read_bytes() for path in run.iterdir()] == [b"first"]
    with exfat(tmp_path, "022") as disk:  # everybody could read the secret of a job
        with pytest.raises(ConfigError, match=r"fuseblk \(.*\) keeps no permissions, so every user .* umask=077"):
            check_results(disk / "results")
        assert check_results(disk / "results", trust_others=True) == []
