"""Find a dataset's files, and damaged images among them, before anything is decoded."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from train.config.checks import ConfigError
from train.config.schema import RunConfig

_LEVELS = 2  # below data_dir: archives often contain a top folder, or two
_READERS = 16  # files read concurrently: on a network file system each waits for the server
_CHUNK = 256
_TAIL_BYTES = 4096
_ARCHIVES = (".tar", ".tar.gz", ".tgz", ".zip")


def _listing(folder: Path) -> str:
    names = sorted(entry.name + ("/" if entry.is_dir() else "") for entry in os.scandir(folder))
    return ", ".join(names[:8]) + (f" and {len(names) - 8} more" if len(names) > 8 else "") or "nothing"


def roots(config: RunConfig, is_root: Callable[[Path], bool], expected: str) -> list[Path]:
    """Return the folders that hold the dataset, sorted: data_dir, or the nearest below it, at most two levels down.

    Raises ConfigError, with what is there and what is `expected`, if data_dir is not a folder or does not hold it.
    """
    given = Path(config.dataset.data_dir or "").expanduser()
    key = f"dataset.data_dir={given}"
    if not given.is_dir():
        raise ConfigError(f"{key}: {'not a folder' if given.exists() else 'there is no such folder'}")
    level = [given]
    try:
        for _ in range(_LEVELS + 1):
            if homes := [folder for folder in level if is_root(folder)]:
                return homes
            level = sorted(Path(entry) for folder in level for entry in os.scandir(folder) if entry.is_dir())
        there = _listing(given)
    except OSError as error:
        raise ConfigError(f"{key}: {error.filename}: {error.strerror}") from error
    packed = any(name.name.endswith(_ARCHIVES) for name in given.iterdir())
    raise ConfigError(
        f"{key}: found {there}; expected {expected}, there or at most {_LEVELS} levels below"
        + (". Unpack the archive first" if packed else "")
    )


def root(config: RunConfig, is_root: Callable[[Path], bool], expected: str) -> Path:
    """Return the first of the folders of `roots`. Raises ConfigError."""
    return roots(config, is_root, expected)[0]


def _damage(path: str) -> str | None:
    try:
        file = os.open(path, os.O_RDONLY)
    except OSError as error:
        return error.strerror
    try:
        head = os.read(file, 8)
        length = os.fstat(file).st_size
        if not head:
            return "empty"
        if head.startswith(b"\xff\xd8\xff"):
            end = b"\xff\xd9"
        elif head == b"\x89PNG\r\n\x1a\n":
            end = b"IEND"
        else:
            return "neither JPEG nor PNG"
        return None if end in os.pread(file, _TAIL_BYTES, max(0, length - _TAIL_BYTES)) else "cut short"
    except OSError as error:
        return error.strerror
    finally:
        os.close(file)


def damages(paths: Sequence[str]) -> list[str | None]:
    """Return the fault of each image file, or None: missing, unreadable, empty, not JPEG or PNG, truncated."""
    chunks = [paths[begin : begin + _CHUNK] for begin in range(0, len(paths), _CHUNK)]
    with ThreadPoolExecutor(_READERS) as pool:
        return [damage for part in pool.map(lambda chunk: [_damage(path) for path in chunk], chunks) for damage in part]
