"""The contents of an archive, or of the folder that it was unpacked to: read file by file, without unpacking."""

import gzip
import hashlib
import io
import tarfile
import unicodedata
import zlib
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from analysis import TableError
from analysis.archive.manifest import OUTSIDE, shown

ROOT = "bundle"  # the folder that an archive unpacks to
_GZIP = b"\x1f\x8b"  # its first bytes
_DAMAGED = (OSError, EOFError, ValueError, tarfile.TarError, zlib.error)
# Text packs to a tenth. An archive that was made to fill a disk packs to a thousandth, and need not be read to its end.
MOST_TIMES, MOST_BYTES = 100, 1 << 28
_BLOCK_BYTES = 1 << 20
_UP = {"", ".", ".."}

Entry = tuple[str, str, IO[bytes] | None]  # name, what is wrong with it, content


@dataclass(frozen=True)
class Contents:
    """The SHA-256 of each file by its name; the manifest and its signature; a line for what no archive should hold."""

    digests: dict[str, str] = field(default_factory=dict)
    outside: dict[str, bytes] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)


def read(path: Path) -> Contents:
    """Read the contents of an archive or folder. Raises TableError naming the file at which it cannot be read."""
    contents, at = Contents(), ""
    if not path.exists():
        raise TableError(f"{path}: no such file; make bundle writes figures/bundle.tar.gz")
    try:
        for name, problem, content in _folder_entries(path) if path.is_dir() else _archive_entries(path):
            at = f", in or after {shown(name)}"
            if not name.isprintable():
                problem = "is not a name that `bundle` writes"
            elif not problem and (name in contents.digests or name in contents.outside):
                problem = "occurs twice"
            if problem or content is None:
                contents.extra.append(f"extra: {shown(name)} {problem}")
            elif name in OUTSIDE:
                contents.outside[name] = content.read()
            else:
                contents.digests[name] = hashlib.file_digest(content, "sha256").hexdigest()  # type: ignore[arg-type]
    except _DAMAGED as error:
        raise TableError(f"{path}: not a whole archive{at}: {getattr(error, 'strerror', None) or error}") from error
    contents.extra.extend(_clashes([*contents.digests, *contents.outside]))
    return contents


def _folder_entries(folder: Path) -> Iterator[Entry]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            yield name, "is not a regular file", None
        elif path.is_file():
            with path.open("rb") as content:
                yield name, "", content


def _archive_entries(path: Path) -> Iterator[Entry]:
    with path.open("rb") as file:
        if file.read(len(_GZIP)) != _GZIP:
            raise gzip.BadGzipFile("it is not compressed with gzip")
    most = max(MOST_BYTES, MOST_TIMES * path.stat().st_size)
    with _Forward(path, most) as packed, tarfile.open(fileobj=packed, mode="r:") as tar:
        for member in tar:
            top, _, name = member.name.partition("/")
            if member.isdir() and member.name == ROOT:
                continue
            if top != ROOT or _UP & {*name.split("/")} or "\\" in name:
                yield member.name, f"is not within the folder {ROOT}", None
            elif not member.isdir():
                plain = member.isreg() and not member.issparse()
                yield name, "" if plain else "is not a regular file", tar.extractfile(member) if plain else None
        packed.seek(tar.offset)
        while block := packed.read(_BLOCK_BYTES):  # zeros, up to the checksum of the compression
            if any(block):
                raise tarfile.ReadError("what follows is not a file")


class _Forward(gzip.GzipFile):
    """A compressed file that is read forward, and up to `most` bytes: some are made to be read for ever."""

    def __init__(self, path: Path, most: int) -> None:
        super().__init__(path, "rb")
        self._most = most

    def read(self, size: int | None = -1) -> bytes:
        self._allow(self.tell() + (size or 0))
        return super().read(size)

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        if whence == io.SEEK_SET:  # else it is `tell`
            self._allow(offset)
        return super().seek(offset, whence)

    def _allow(self, position: int) -> None:
        if position > self._most:
            raise tarfile.ReadError(f"it unpacks to more than {self._most / 1e6:.0f} MB, which no archive does")
        if position < self.tell() - tarfile.BLOCKSIZE:
            raise tarfile.ReadError("a file lies within the one before")


def _clashes(names: Iterable[str]) -> Iterator[str]:
    """Yield a line for files that overwrite each other on a system that ignores case or the kind of accent."""
    alike: dict[str, list[str]] = defaultdict(list)
    for name in names:
        alike[unicodedata.normalize("NFC", name).casefold()].append(name)
    for same in alike.values():
        if len(same) > 1:
            yield f"extra: {' and '.join(sorted(same))} are one file on a system that ignores case"
