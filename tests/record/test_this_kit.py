import subprocess
import tarfile

import pytest

from record import this_kit

starts_git = pytest.mark.slow


def git(folder, *arguments):
    identity = ["-c", "user.name=test", "-c", "user.email=test@localhost"]
    done = subprocess.run(["git", *identity, *arguments], cwd=folder, check=True, capture_output=True, text=True)
    return done.stdout.strip()


@pytest.fixture
def clone(tmp_path):
    """A repository with some code and the file that git completes in archives."""
    folder = tmp_path / "clone"
    (folder / "train").mkdir(parents=True)
    (folder / "train/code.py").write_text("")
    for name in (this_kit.IN_ARCHIVE, ".gitattributes"):
        (folder / name).write_text((this_kit.ROOT / name).read_text())
    git(folder, "init", "-q")
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "first")
    return folder


@starts_git
def test_a_clone_has_its_commit_and_is_changed_only_if_its_code_is(clone, monkeypatch):
    commit = git(clone, "rev-parse", "HEAD")
    for name in ("log.lammps", "results-a/record.json", "references/site.json", "docs/page.md"):
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).write_text("a user's own")
    with monkeypatch.context() as hook:
        for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR"):
            hook.setenv(name, str(clone / "docs"))  # of another repository
        assert this_kit.commit(clone) == (commit, False)
    folders = ("record", "common", "conf", "analysis", "requirements")
    for name in ("train/code.py", *(f"{folder}/mine" for folder in folders), "uv.lock"):
        (clone / name).parent.mkdir(exist_ok=True)
        (clone / name).write_text("changed")
        assert this_kit.commit(clone) == (commit, True)
        assert this_kit.commit(clone, untracked=False) == (commit, name == "train/code.py")
        git(clone, "add", ".")
        git(clone, "commit", "-q", "-m", name)
        commit = git(clone, "rev-parse", "HEAD")


@starts_git
def test_an_archive_has_the_commit_of_its_clone_also_inside_another_repository(clone, tmp_path, monkeypatch):
    git(clone, "archive", "--prefix=kit/", f"--output={tmp_path / 'kit.tar'}", "HEAD")
    other = tmp_path / "other"
    other.mkdir()
    git(other, "init", "-q")
    git(other, "commit", "-q", "--allow-empty", "-m", "of somebody else")
    with tarfile.open(tmp_path / "kit.tar") as packed:
        packed.extractall(other)
    expected = (git(clone, "rev-parse", "HEAD"), None)
    assert this_kit.commit(other / "kit") == expected
    monkeypatch.setenv("GIT_DIR", str(other / ".git"))  # as in a hook of that repository
    assert this_kit.commit(other / "kit") == expected


@starts_git
def test_a_copy_without_a_commit_has_none_also_inside_another_repository(clone, monkeypatch):
    copy = clone / "copy"
    copy.mkdir()
    assert this_kit.commit(copy) == (None, None)
    (copy / this_kit.IN_ARCHIVE).write_text((clone / this_kit.IN_ARCHIVE).read_text())
    assert this_kit.commit(copy) == (None, None)  # git completes the file in archives alone
    monkeypatch.setenv("PATH", "/nowhere")
    assert this_kit.commit(clone) == (None, None)  # without git


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("a" * 40, ("a" * 40, False)),
        ("a" * 40 + " changed\n", ("a" * 40, True)),
        ("a" * 40 + " unchecked\n", ("a" * 40, None)),
        ("unknown\n", (None, None)),
    ],
)
def test_an_image_has_the_commit_that_its_build_wrote(tmp_path, monkeypatch, written, expected):
    monkeypatch.setenv("PATH", "/nowhere")  # without git
    assert (this_kit.image(tmp_path), this_kit.commit(tmp_path)) == (None, (None, None))
    for name, text in (("commit", written), ("built", "cpu 1.2.3\n")):  # as in the Dockerfile
        file = tmp_path / "containers" / name
        file.parent.mkdir(exist_ok=True)
        file.write_text(text)
    assert (this_kit.image(tmp_path), this_kit.commit(tmp_path)) == ("cpu 1.2.3", expected)


def test_the_version_is_that_of_the_project(tmp_path):
    (tmp_path / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    assert this_kit.version(tmp_path) == "1.2.3"
    assert this_kit.version(tmp_path / "elsewhere") == ""
