"""Build the archive to deposit: the sources of this commit with lock and licence, and their checksums.

make release
"""

import hashlib
import re
import sys
import tarfile
from pathlib import Path
from string import Template

from common.programs import finished
from common.terminal import show
from record.this_kit import ROOT, version
from train.config.checks import ConfigError, reported

NEEDED = (".git_archival.txt", "LICENSE", "uv.lock", "CITATION.cff", "codemeta.json", "README.md", "ARTIFACT.md")
_DOI = re.compile(r"^doi: *(\S+)", re.MULTILINE)
_FILL_IN = "; put it into CITATION.cff (doi:) and codemeta.json (identifier:), commit, and run make release again"


def build(kit: Path, folder: Path) -> list[Path]:
    """Write the archive and its checksums into a folder and return both paths; the same commit gives the same bytes.

    Raises ConfigError if the tree has changes, or lacks a file that a release must have.
    """
    if changes := _git(kit, "status", "--porcelain").splitlines():
        raise ConfigError(f"not committed: {', '.join(line[3:] for line in changes[:5])}; commit first")
    tracked = _git(kit, "ls-files", "-z").split("\0")
    if missing := [name for name in NEEDED if name not in tracked]:
        raise ConfigError(f"not in the repository: {', '.join(missing)}")
    name = f"horovod-scaling-kit-{version(kit)}"
    folder.mkdir(parents=True, exist_ok=True)
    archive, sums = folder / f"{name}.tar.gz", folder / f"{name}.SHA256SUMS"
    _git(kit, "archive", "--format=tar.gz", f"--prefix={name}/", f"--output={archive.absolute()}", "HEAD")
    lines = [_sum(archive.read_bytes(), archive.name)]
    with tarfile.open(archive) as packed:  # not of the tree: git puts the commit into a file
        members = sorted((member.name, packed.extractfile(member)) for member in packed if member.isfile())
        lines += [_sum(file.read(), path) for path, file in members if file]
    sums.write_text("".join(lines))
    return [archive, sums]


def steps(kit: Path, archive: Path, sums: Path) -> str:
    """Return what was built, and the steps that only a person can do, in order."""
    doi = "" if _DOI.search((kit / "CITATION.cff").read_text()) else _FILL_IN
    megabytes = f"{archive.stat().st_size / 1e6:.1f}"
    template = Template(Path(__file__).with_suffix(".txt").read_text())
    return template.substitute(archive=archive, sums=sums, doi=doi, version=version(kit), megabytes=megabytes)


def _sum(content: bytes, name: str) -> str:
    return f"{hashlib.sha256(content).hexdigest()}  {name}\n"


def _git(kit: Path, *arguments: str) -> str:
    try:
        done = finished(["git", "-C", str(kit), *arguments])
    except FileNotFoundError as error:
        raise ConfigError("git is not installed: it knows which files are the kit's") from error
    if done.returncode:
        raise ConfigError(f"git {arguments[0]}: {done.stderr.strip()}")
    return done.stdout


def main() -> int:
    """Build the archive in release/ and print the steps; returns the exit status."""
    archive, sums = build(ROOT, Path("release"))
    show(steps(ROOT, archive, sums).rstrip(), hanging="   ")
    return 0


if __name__ == "__main__":
    sys.exit(reported(main))
