"""requirements/wheel_cache.py: what a compiled Horovod depends on, and that only a whole wheel comes back."""

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[2] / "requirements"))
import wheel_cache

LOCK = "a==1 \\\n    --hash=sha256:0\ntensorflow-cpu==2.18.1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2\nz==3\n"


@pytest.fixture
def programs(tmp_path, monkeypatch):
    """A folder of programs, first on the path that Horovod would be compiled with, and a function that adds one."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in list(wheel_cache.os.environ):
        if wheel_cache._OPTIONS.fullmatch(name):
            monkeypatch.delenv(name)

    def add(name: str, says: str) -> None:
        (folder / name).write_text(f"#!/bin/sh\necho {says}\n")
        (folder / name).chmod(0o755)

    add("g++", "12.2.0")
    return folder, add


def key(folder: Path, **settings: str) -> str:
    given = {"HOROVOD_WITH_GLOO": "1", "PATH": str(folder), **settings}
    return wheel_cache.Kept.of(wheel_cache.depends_on("cpu", given, mpich=False)).folder.name


def test_the_lines_of_one_package_are_its_version_and_all_its_hashes():
    found = wheel_cache.requirement(LOCK, "tensorflow-cpu")
    assert found == "tensorflow-cpu==2.18.1 \\\n    --hash=sha256:1 \\\n    --hash=sha256:2"
    with pytest.raises(LookupError, match="tensorflow: not in this lock"):
        wheel_cache.requirement(LOCK, "tensorflow")


def test_the_key_changes_with_all_that_is_compiled_in(programs, monkeypatch):
    folder, add = programs
    keys = [key(folder)]
    add("g++", "13.1.0")
    keys.append(key(folder))
    add("mpicxx", "g++ -lmpi_cxx")
    keys.append(key(folder))
    add("mpirun", "4.1.5")
    keys.append(key(folder))
    keys.append(key(folder, HOROVOD_WITH_MPI="1"))
    monkeypatch.setenv("CXXFLAGS", "-O1")
    keys.append(key(folder))
    monkeypatch.setattr(wheel_cache.sys, "version", "3.12.1")
    keys.append(key(folder))
    read = Path.read_text
    for name in ("horovod.txt", "build.txt", "horovod-cmake.sh"):
        monkeypatch.setattr(Path, "read_text", lambda path, name=name: read(path) + "#" * (path.name == name))
        keys.append(key(folder))
    changed = read(wheel_cache._HERE / "cpu.txt").replace("tensorflow-cpu==2.18.1", "tensorflow-cpu==2.18.2")
    monkeypatch.setattr(Path, "read_text", lambda path: changed if path.name == "cpu.txt" else read(path))
    keys.append(key(folder))
    assert len(set(keys)) == len(keys)


def test_the_key_is_the_same_in_another_clone_with_other_packages(programs, monkeypatch):
    folder, _ = programs
    before = key(folder, MAKEFLAGS="-j2", HOROVOD_CMAKE="/a/requirements/horovod-cmake.sh")
    read = Path.read_text
    monkeypatch.setattr(Path, "read_text", lambda path: read(path).replace("wandb==", "wandb==9"))
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0")
    assert key(folder, MAKEFLAGS="-j8", HOROVOD_CMAKE="/b/requirements/horovod-cmake.sh") == before


def test_wheels_are_kept_where_the_user_wants_caches(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert wheel_cache.folder() == tmp_path / "horovod-scaling-kit"
    for unset in ("", "relative/path"):
        monkeypatch.setenv("XDG_CACHE_HOME", unset)
        assert wheel_cache.folder() == Path.home() / ".cache/horovod-scaling-kit"


@pytest.fixture
def kept(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return wheel_cache.Kept.of({"python": "3.11"})


def wheel(tmp_path: Path, content: str) -> Path:
    path = tmp_path / "horovod-0.28.1-cp311-cp311-linux_x86_64.whl"
    path.write_text(content)
    return path


def test_a_wheel_comes_back_until_it_is_discarded(kept, tmp_path):
    assert kept.wheel() is None
    there = kept.put(wheel(tmp_path, "compiled"))
    assert kept.wheel() == there
    assert there.read_text() == "compiled"
    assert '"python": "3.11"' in (kept.folder / "key.json").read_text()
    kept.put(wheel(tmp_path, "compiled again"))
    assert kept.wheel().read_text() == "compiled again"
    kept.discard()
    assert kept.wheel() is None
    assert list(kept.folder.parent.iterdir()) == []


@pytest.mark.parametrize("damage", ["cut off", "no checksum", "two"])
def test_a_damaged_wheel_does_not_come_back(kept, tmp_path, damage):
    there = kept.put(wheel(tmp_path, "compiled"))
    if damage == "cut off":
        there.write_text("comp")
    elif damage == "no checksum":
        (kept.folder / "sha256").unlink()
    else:
        (kept.folder / "another.whl").write_text("compiled")
    assert kept.wheel() is None
