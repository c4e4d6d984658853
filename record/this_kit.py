"""This copy of the kit: its version, and the commit of its code."""

# Also for the Python of a host that builds an image, which may be older than the one that the kit needs.
from __future__ import annotations

import functools
import os
import re
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
# What makes a measurement one of no commit if it was changed.
CODE = ("train", "record", "common", "conf", "analysis", "requirements", "uv.lock")
IN_IMAGE = "containers/commit"  # written by the build of an image: the commit, and "changed"
BUILT = "containers/built"  # written by it too: variant, version, commit and base
IN_ARCHIVE = ".git_archival.txt"  # git puts the commit into it, in an archive of the repository (gitattributes(5))
_COMMIT = re.compile(r"\b([0-9a-f]{40})\b ?(\w*)")
_CHANGED = {"": False, "changed": True}
_ANSWER_WITHIN_S = 60.0  # git reads every file, which is slow on a shared file system
_OF_ANOTHER = ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_COMMON_DIR", "GIT_PREFIX")  # set in a hook of git


def image(root: Path = ROOT) -> str | None:
    """Return what the build of an image has written about it; None outside one."""
    file = root / BUILT
    return file.read_text().strip() if file.is_file() else None


@functools.cache
def version(root: Path = ROOT) -> str:
    """Return the version of the kit, as pyproject.toml has it; "" without that file, so that no record is lost."""
    import tomllib

    file = root / "pyproject.toml"
    return str(tomllib.loads(file.read_text())["project"]["version"]) if file.is_file() else ""


def _git(root: Path, *arguments: str) -> str | None:
    """Return what git prints of the repository around `root`; None if it fails or is not installed."""
    env = {name: value for name, value in os.environ.items() if name not in _OF_ANOTHER}
    try:
        done = subprocess.run(
            ["git", "-C", str(root), *arguments], env=env, capture_output=True, text=True, timeout=_ANSWER_WITHIN_S
        )
    except (OSError, subprocess.TimeoutExpired):
        return None  # a measurement does not fail because git hangs
    return done.stdout.strip() if done.returncode == 0 else None


def commit(root: Path = ROOT, untracked: bool = True) -> tuple[str | None, bool | None]:
    """Return the commit of the code in `root`, and whether the code was changed since; None for what is not known.

    untracked: whether files that git does not track are changes.

    A repository that surrounds the kit is not the kit's. Without its own, the kit is an image, or an archive of a
    commit, whose files may have been changed since.
    """
    top = _git(root, "rev-parse", "--show-toplevel")
    if top and Path(top).resolve() == root.resolve():
        files = f"--untracked-files={'normal' if untracked else 'no'}"
        changes = _git(root, "status", "--porcelain", files, "--", *CODE)
        return _git(root, "rev-parse", "--verify", "HEAD"), None if changes is None else changes != ""
    for name, states in ((IN_IMAGE, _CHANGED), (IN_ARCHIVE, {})):
        file = root / name
        if file.is_file() and (match := _COMMIT.search(file.read_text())):
            return match[1], states.get(match[2])
    return None, None
