import subprocess
import tarfile

import pytest

from record.this_kit import IN_ARCHIVE
from record.this_kit import commit as kit_commit
from train.config.checks import ConfigError
from train.tools import release

pytestmark = pytest.mark.slow  # starts processes


@pytest.fixture
def kit(tmp_path):
    """A repository with all files that a release needs."""
    folder = tmp_path / "kit"
    folder.mkdir()
    for name in release.NEEDED:
        (folder / name).write_text(f"{name}: $Format:%H$\n")
    (folder / ".gitattributes").write_text(f"{IN_ARCHIVE} export-subst\n")
    (folder / "pyproject.toml").write_text('[project]\nversion = "1.2.3"\n')
    git(folder, "init", "-q")
    commit(folder)
    return folder


def git(folder, *arguments):
    subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", *arguments], check=True)


def commit(folder):
    git(folder, "add", ".")
    git(folder, "commit", "-q", "-m", "all")


def test_the_archive_has_all_files_of_the_commit_and_their_checksums(kit, tmp_path):
    archive, sums = release.build(kit, tmp_path / "out")
    assert archive.read_bytes() == release.build(kit, tmp_path / "again")[0].read_bytes()
    assert archive.name == "horovod-scaling-kit-1.2.3.tar.gz"
    with tarfile.open(archive) as packed:
        names = {name for name in packed.getnames() if packed.getmember(name).isfile()}
        packed.extractall(tmp_path / "out")
    assert {
        f"horovod-scaling-kit-1.2.3/{name}" for name in (*release.NEEDED, ".gitattributes", "pyproject.toml")
    } == names
    subprocess.run(["sha256sum", "--check", "--quiet", sums.name], cwd=tmp_path / "out", check=True)
    assert len(sums.read_text().splitlines()) == 1 + len(names)
    assert kit_commit(tmp_path / "out/horovod-scaling-kit-1.2.3") == (kit_commit(kit)[0], None)


def test_changes_and_missing_files_are_named(kit, tmp_path):
    (kit / "LICENSE").write_text("another\n")
    with pytest.raises(ConfigError, match="not committed: LICENSE"):
        release.build(kit, tmp_path / "out")
    (kit / "LICENSE").unlink()
    commit(kit)
    with pytest.raises(ConfigError, match="not in the repository: LICENSE"):
        release.build(kit, tmp_path / "out")


def test_the_steps_ask_for_a_doi_until_there_is_one(kit, tmp_path):
    (tmp_path / "a").write_bytes(b"x" * 1_200_000)
    steps = release.steps(kit, tmp_path / "a", tmp_path / "b")
    assert steps.startswith(f"{tmp_path}/a: 1.2 MB; {tmp_path}/b: sha256sum --check\n")
    assert "put it into CITATION.cff" in steps
    assert "git tag --annotate v1.2.3" in steps
    (kit / "CITATION.cff").write_text("doi: 10.5281/zenodo.1\n")
    assert "put it into CITATION.cff" not in release.steps(kit, tmp_path / "a", tmp_path / "b")
