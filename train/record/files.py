"""Files that others read while they are written: they find them whole, or not at all. And what tells files apart."""

import errno
import hashlib
import os
import tempfile
from pathlib import Path


def write_whole(path: Path, content: bytes, mode: int = 0o666) -> None:
    """Write a file, in place of one that is there. mode: its permissions, less the umask. Raises OSError."""
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
    """Write a file, and never replace one that is there. Raises OSError naming the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.chmod(temporary, 0o644)
        try:
            os.link(temporary, path)  # unlike a rename it fails if there is a file, also one of this very moment
        except FileExistsError:
            raise FileExistsError(errno.EEXIST, "it exists, and nothing measured is ever replaced") from None
    except OSError as error:
        raise OSError(error.errno, f"{error.strerror}; the record was not written", str(path)) from error
    finally:
        if os.path.exists(temporary):
            os.unlink(temporary)
