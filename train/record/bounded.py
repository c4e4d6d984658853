"""Reading of files that may come from anybody: only regular ones, and bounded before they take memory."""

import errno
import gzip
import io
import os
import re
import stat
import zlib
from pathlib import Path

MOST_BYTES = 1 << 28  # of a record: one of a thousand ranks with a thousand steps has 10 MB
MOST_VALUES = 20_000_000  # in JSON: such a record has 2 million; a value takes up to 100 bytes of memory
_DEEPEST = 32  # levels of JSON: a record has 8
_ONE_KIND = bytes.maketrans(b"{}", b"[]")
_NO_STRUCTURE = bytes(set(range(256)) - {*b'[]{}"'})


def _too_large(most_bytes: int) -> OSError:
    return OSError(errno.EFBIG, f"more than {most_bytes / 1e6:.0f} MB, which no such file has")


def read(path: Path | str, most_bytes: int = MOST_BYTES, links: bool = True, begin: int = 0) -> bytes:
    """Return the content of a regular file. Raises OSError, whose `strerror` says why it is not read.

    Opening another kind of file could wait for ever. links: whether the file may be a link. begin: the
    first byte.
    """
    flags = os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if links else os.O_NOFOLLOW)
    descriptor = os.open(path, flags)
    try:
        status = os.fstat(descriptor)
        if not stat.S_ISREG(status.st_mode):
            raise OSError(errno.EINVAL, "not a regular file")
        size = max(0, status.st_size - begin)
        if size > most_bytes:
            raise _too_large(most_bytes)
        with open(descriptor, "rb", closefd=False) as file:
            file.seek(begin)
            return file.read(size)
    finally:
        os.close(descriptor)


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
