"""Digests of the code and the configuration files that run: hosts may hold different copies of the tree."""

import functools
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("train", "conf")
SUFFIXES = (".py", ".yaml")
DIGITS = 12  # hexadecimal, of each file: enough to tell copies apart


@functools.cache
def files(root: Path = ROOT) -> Mapping[str, str]:
    """Return the files of train/ and conf/ below `root`: relative path -> the first digits of the content's SHA-256."""
    paths = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS] for path in paths}


def digest(digests: Mapping[str, str]) -> str:
    """Return one SHA-256, hexadecimal, over the digests of all files."""
    return hashlib.sha256(json.dumps(dict(digests), sort_keys=True).encode()).hexdigest()


def differing(one: Mapping[str, str], other: Mapping[str, str]) -> list[str]:
    """Return the files whose content differs, or that only one side has, sorted."""
    return sorted(path for path in {*one, *other} if one.get(path) != other.get(path))
