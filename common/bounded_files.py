"""Opening of files that may come from anybody: only regular ones, and bounded before they take memory."""

import errno
import gzip
import io
import os
import re
import stat
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, cast

MOST_BYTES = 1 << 28  # of a record: one of a thousand ranks with a thousand steps has 10 MB
MOST_YAML_BYTES = 100_000  # a person writes it
MOST_VALUES = 20_000_000  # in JSON: such a record has 2 million; a value takes up to 100 bytes of memory
_DEEPEST = 32  # levels of JSON: a record has 8
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NO_STRUCTURE = bytes(set(range(256)) - {*b'[]{}"'})


def _too_large(most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"more than {most_bytes / 1e6:.0f} MB, which no such file has")


def read(path: Path | str, most_bytes: int = MOST_BYTES, links: bool = True, begin: int = 0) -> bytes:
    """Return the content of a regular file. Raises OSError, whose `strerror` says why it is not read.

    links: whether the file may be a link. begin: the first byte.
    """
    with _regular(path, os.O_RDONLY | (0 if links else os.O_NOFOLLOW), "rb") as file:
        size = max(0, os.fstat(file.fileno()).st_size - begin)
        if size > most_bytes:
            raise _too_large(most_bytes)
        file.seek(begin)
        return file.read(size)


def open_regular(path: Path, permissions: int) -> BinaryIO:
    """Open a regular file to read it and to add to its end; it is made with these permissions if it is missing.

    Raises OSError, also for a link: in a folder that others may write to it could lead to any file.
    """
    return _regular(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, "r+b", permissions)


@contextmanager
def named(path: Path) -> Iterator[None]:
    """Name a file in an OSError that names none: those of writing and locking."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def _regular(path: Path | str, flags: int, mode: str, permissions: int = 0) -> BinaryIO:
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_CLOEXEC, permissions)  # a pipe could wait for ever
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(errno.EINVAL, "not a regular file", os.fspath(path))
    return cast(BinaryIO, os.fdopen(descriptor, mode))


def unpacked(content: bytes, most_bytes: int = MOST_BYTES) -> bytes:
    """Return what was compressed with gzip. Raises OSError if it was not, or is larger."""
    try:
        plain = gzip.GzipFile(fileobj=io.BytesIO(content)).read(most_bytes + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise OSError(errno.EINVAL, f"damaged: {error}") from error
    if len(plain) > most_bytes:
        raise _too_large(most_bytes)
    return plain


def check_json(text: bytes) -> bytes:
    """Return a JSON text that is not too deep and has not too many values. Raises ValueError."""
    if text.count(b",") + text.count(b"[") + text.count(b"{") > MOST_VALUES:
        raise ValueError(f"more than {MOST_VALUES} values")
    unescaped = re.sub(rb"\\.", b"", text, flags=re.DOTALL) if b"\\" in text else text
    brackets = re.sub(b'"[^"]*"', b"", unescaped.translate(_ONE_KIND, _NO_STRUCTURE))
    for _ in range(_DEEPEST):  # each time without the innermost level
        brackets = brackets.replace(b"[]", b"")
    if b"[]" in brackets or brackets.count(b"[") > _DEEPEST:
        raise ValueError(f"nested more than {_DEEPEST} levels deep")
    return text


def yaml_value(content: bytes) -> object:
    """Return the value of a YAML text: without aliases and tags, at most 32 levels deep; a date is a text.

    Raises ValueError.
    """
    import yaml  # only here: every target of make loads this module

    class Loader(yaml.SafeLoader):
        pass

    Loader.yaml_implicit_resolvers = {
        first: [pair for pair in pairs if not pair[0].endswith(":timestamp")]
        for first, pairs in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }
    depth = 0
    try:
        for event in yaml.parse(content, Loader):
            depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
            line = f"line {event.start_mark.line + 1}" if event.start_mark else "an unknown line"
            if isinstance(event, yaml.AliasEvent) or getattr(event, "anchor", None) or getattr(event, "tag", None):
                raise ValueError(f"{line}: aliases (&, *) and tags (!) are not read; write the value itself")
            if depth > _DEEPEST:
                raise ValueError(f"{line}: nested more than {_DEEPEST} levels deep")
        return yaml.load(content, Loader)
    except yaml.YAMLError as error:
        raise ValueError(" ".join(str(error).split())) from error
