"""The files of runs: their paths, how they are written whole, and digests that tell copies of the code apart.

A run is in results/<experiment>/<point>/<hash8>/r<repeat>[.<generation>]/.

Hosts may hold different copies of the tree, which may also change: digests of the code show differences.
"""

import errno
import functools
import hashlib
import json
import os
import re
import secrets
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from itertools import groupby
from operator import itemgetter
from pathlib import Path
from typing import BinaryIO

from common import bounded_files as bounded
from record.schema import RECORD_NAME, RUN_FOLDER, RecordError, RunOutcome, load_outcome
from record.this_kit import ROOT

# The code that ranks run. Not conf/: a rank gets its configuration from the launcher.
FOLDERS = ("train", "record", "common")
_NOT_OF_RANKS = re.compile("train/(tools|tracking|launch/(?!start/))")
DIGITS = 12  # hexadecimal, of each file: enough to tell copies apart


def point_folder(results: Path, experiment: str, point: str, config_hash: str) -> Path:
    """Return the folder of all runs of one point in one configuration."""
    return results / experiment / point / config_hash[:8]


def run_folder(point: Path, repeat: int, generation: int) -> Path:
    """Return the folder of one run. The first generation carries no number: most runs have no second."""
    return point / (f"r{repeat}" if generation == 1 else f"r{repeat}.{generation}")


def is_run(name: str) -> bool:
    """Return whether a folder has the name of a run."""
    return bool(RUN_FOLDER.fullmatch(name))


def checkpoints(run: Path) -> Path:
    """Return the folder of a run's checkpoints: beside its folder, for its next generation."""
    return run.with_name(f"checkpoints-{run.name.split('.')[0]}")


def _numbers(point: Path) -> list[tuple[int, int]]:
    """Return the repeat and the generation of each run of a point that has a folder, ascending."""
    try:
        matches = [RUN_FOLDER.fullmatch(entry.name) for entry in os.scandir(point) if entry.is_dir()]
    except (FileNotFoundError, NotADirectoryError):
        return []
    return sorted((int(match[1]), int(match[2] or 1)) for match in matches if match)


def runs(point: Path) -> dict[int, list[Path]]:
    """Return the folders of the generations of each repeat of a point, both ascending."""
    by_repeat = groupby(_numbers(point), itemgetter(0))
    return {repeat: [run_folder(point, *numbers) for numbers in group] for repeat, group in by_repeat}


_complete: dict[Path, RunOutcome] = {}  # of this process, by the folder of the run: a record is never replaced


def outcome(run: Path) -> RunOutcome | None:
    """Return the outcome of the run in a folder if its record is complete, else None. That record is read once."""
    if complete := _complete.get(run):
        return complete
    try:
        loaded = load_outcome(run / RECORD_NAME)
    except RecordError:
        return None  # the analysis reports it; here it only means that there is no measurement
    if loaded.status == "complete":
        return _complete.setdefault(run, loaded)
    return None


def completed(point: Path) -> dict[int, list[Path]]:
    """Return the folders of the complete runs of each repeat of a point, the newest first; none: it is not in it."""
    complete = {repeat: [*filter(outcome, reversed(folders))] for repeat, folders in runs(point).items()}
    return {repeat: folders for repeat, folders in complete.items() if folders}


def outcomes(point: Path) -> dict[int, RunOutcome]:
    """Return the outcome of the newest complete run of each repeat of a point."""
    return {repeat: _complete[folders[0]] for repeat, folders in completed(point).items()}


def new_run(point: Path, repeat: int) -> tuple[Path, int]:
    """Make the folder of the next generation of a repeat; returns it, and its number. Raises OSError."""
    generation = 1 + max((generation for number, generation in _numbers(point) if number == repeat), default=0)
    folder = run_folder(point, repeat, generation)
    make_folder(folder, exist_ok=False)
    return folder, generation


def make_folder(folder: Path, exist_ok: bool = True) -> None:
    """Make a folder and those above it, and wait until their names are on the disk. Raises OSError."""
    missing = [path for path in (folder, *folder.parents) if not path.exists()]
    folder.mkdir(parents=True, exist_ok=exist_ok)
    for path in missing:
        synchronize_folder(path.parent)


# A file system that lacks a call, as some behind FUSE or a network, answers with one of these.
_LACKING = (errno.EINVAL, errno.ENOSYS, errno.EOPNOTSUPP, errno.EPERM, errno.EACCES)


def synchronize(descriptor: int) -> None:
    """Wait until a file or folder is on the disk, unless its file system has no such call. Raises OSError."""
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in _LACKING:
            raise


@contextmanager
def whole_file(path: Path, mode: int = 0o666, *, replace: bool) -> Iterator[BinaryIO]:
    """Open a file that gets its name at the end of the context, whole and on the disk; after an error it has none.

    mode: its permissions, less the umask. replace: it may take the place of another file.
    Raises OSError naming the path.
    """
    make_folder(path.parent)
    writing = path.with_name(f".{path.name}.{secrets.token_hex(4)}.writing")
    try:
        with os.fdopen(os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            file.flush()
            synchronize(file.fileno())
        if replace:
            writing.replace(path)
        else:
            _name_once(writing, path)
        synchronize_folder(path.parent)
    except FileExistsError:
        raise FileExistsError(errno.EEXIST, "it exists, and nothing measured is ever replaced", str(path)) from None
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; it was not written", str(path)) from error
    finally:
        with suppress(OSError):
            writing.unlink()


def _name_once(writing: Path, path: Path) -> None:
    """Give a file its name, unless another file has it. Raises FileExistsError, OSError."""
    try:
        os.link(writing, path)  # unlike a rename it fails if the file exists, even if it was just created
    except FileExistsError:
        if writing.stat().st_nlink == 1:  # else it is this file: NFS lost its first answer, and asked again
            raise
    except OSError:  # a file system without hard links: an empty file reserves the name
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL))
        try:
            writing.replace(path)
        except OSError:
            path.unlink()
            raise


def synchronize_folder(folder: Path) -> None:
    """Wait until the names in a folder are on the disk. Raises OSError."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        synchronize(descriptor)
    finally:
        os.close(descriptor)


def write_file(path: Path, content: bytes, mode: int = 0o666, replace: bool = False) -> None:
    """Write a file, whole or not at all. Arguments, and what it raises: `whole_file`."""
    with whole_file(path, mode, replace=replace) as file:
        file.write(content)


def append(path: Path, content: bytes) -> None:
    """Add to the end of a file, which is made if it is missing, and wait until it is on the disk.

    Raises OSError naming the path.
    """
    with bounded.named(path), path.open("ab") as file:
        is_new = file.tell() == 0
        file.write(content)
        file.flush()
        synchronize(file.fileno())
        if is_new:
            synchronize_folder(path.parent)


def digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the hexadecimal digest of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


@functools.cache
def source_files(root: Path = ROOT) -> Mapping[str, str]:
    """Return the files of the code that ranks run: as `digests`, of the moment of the first call in this process."""
    names = sorted(path.relative_to(root).as_posix() for folder in FOLDERS for path in (root / folder).rglob("*.py"))
    return digests([name for name in names if not _NOT_OF_RANKS.match(name)], root)


def conf_files(root: Path = ROOT) -> dict[str, str]:
    """Return the files of conf/ as `digests`."""
    return digests(sorted(path.relative_to(root).as_posix() for path in (root / "conf").rglob("*.yaml")), root)


def digests(names: Iterable[str], root: Path = ROOT) -> dict[str, str]:
    """Return the first digits of the SHA-256 of these files below `root`, without those that are not there."""
    paths = ((name, root / name) for name in names)
    return {name: digest(path)[:DIGITS] for name, path in paths if path.is_file()}


def source_digest(digests: Mapping[str, str]) -> str:
    """Return one SHA-256, hexadecimal, over the digests of all files."""
    return hashlib.sha256(json.dumps(dict(digests), sort_keys=True).encode()).hexdigest()


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return the files whose content differs, or that only one side has, sorted."""
    return sorted(path for path in {*first, *second} if first.get(path) != second.get(path))
