"""The files of runs: their paths, how they are written whole, and digests that tell copies of the code apart.

A run is in results/<experiment>/<point>/<hash8>/r<repeat>[.<generation>]/.

Hosts may hold different copies of the tree: digests of code and configuration files show differences.
"""

import errno
import functools
import hashlib
import json
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

from train.record.kit import ROOT
from train.record.record import RECORD_NAME, RecordError, RunRecord, load

FOLDERS = ("train", "conf")
SUFFIXES = (".py", ".yaml")
DIGITS = 12  # hexadecimal, of each file: enough to tell copies apart


def point_folder(results: Path, experiment: str, point: str, config_hash: str) -> Path:
    """Return the folder of all runs of one point in one configuration."""
    return results / experiment / point / config_hash[:8]


def run_folder(point: Path, repeat: int, generation: int) -> Path:
    """Return the folder of one run. The first generation carries no number: most runs have no second."""
    return point / (f"r{repeat}" if generation == 1 else f"r{repeat}.{generation}")


def checkpoints(run: Path) -> Path:
    """Return the folder of a run's checkpoints: beside its folder, for its next generation."""
    return run.with_name(f"checkpoints-{run.name.split('.')[0]}")


def repeats(point: Path) -> list[int]:
    """Return the repeats of a point that have a folder, ascending."""
    return sorted({int(path.name[1:].partition(".")[0]) for path in point.glob("r*") if path.is_dir()})


def generations(point: Path, repeat: int) -> list[int]:
    """Return the generations of a repeat that have a folder, ascending."""
    matches = [re.fullmatch(rf"r{repeat}(?:\.(\d+))?", path.name) for path in point.glob(f"r{repeat}*")]
    return sorted(int(match[1] or 1) for match in matches if match)


def completed(point: Path, repeat: int) -> RunRecord | None:
    """Return the newest complete record of a repeat, or None if there is none."""
    return next(all_completed(point, repeat), None)


def all_completed(point: Path, repeat: int) -> Iterator[RunRecord]:
    """Yield the complete records of a repeat, the newest first."""
    for generation in reversed(generations(point, repeat)):
        try:
            record = load(run_folder(point, repeat, generation) / RECORD_NAME)
        except RecordError:
            continue  # the analysis reports it; here it only means that there is no measurement
        if record.status == "complete":
            yield record


def new_run(point: Path, repeat: int) -> tuple[Path, int]:
    """Make the folder of the next generation of a repeat; returns it, and its number. Raises OSError."""
    generation = (generations(point, repeat) or [0])[-1] + 1
    folder = run_folder(point, repeat, generation)
    folder.mkdir(parents=True)
    return folder, generation


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file, replacing an existing one. mode: its permissions, less the umask. Raises OSError."""
    writing = path.with_name(f".{path.name}.writing")
    writing.unlink(missing_ok=True)  # of a writer that was killed: it may have other permissions
    with os.fdopen(os.open(writing, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(content)
    writing.replace(path)


def digest(path: Path, algorithm: str = "sha256") -> str:
    """Return the hexadecimal digest of a file. Raises OSError."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def write_once(path: Path, content: bytes) -> None:
    """Write a file, but never replace an existing one. Raises OSError naming the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        try:
            os.link(temporary, path)  # unlike a rename it fails if the file exists, even if it was just created
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, "it exists, and nothing measured is ever replaced") from None
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; the record was not written", str(path)) from error
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)


@functools.cache
def source_files(root: Path = ROOT) -> Mapping[str, str]:
    """Return the files of train/ and conf/ below `root`: relative path -> the first digits of the content's SHA-256."""
    paths = sorted(path for folder in FOLDERS for path in (root / folder).rglob("*") if path.suffix in SUFFIXES)
    return {path.relative_to(root).as_posix(): hashlib.sha256(path.read_bytes()).hexdigest()[:DIGITS] for path in paths}


def source_digest(digests: Mapping[str, str]) -> str:
    """Return one SHA-256, hexadecimal, over the digests of all files."""
    return hashlib.sha256(json.dumps(dict(digests), sort_keys=True).encode()).hexdigest()


def differing(first: Mapping[str, str], second: Mapping[str, str]) -> list[str]:
    """Return the files whose content differs, or that only one side has, sorted."""
    return sorted(path for path in {*first, *second} if first.get(path) != second.get(path))
