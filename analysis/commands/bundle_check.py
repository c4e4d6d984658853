"""`bundle-check`: is an archive what its author packed? Every digest of its manifest, and the signature of that."""

from __future__ import annotations

import argparse
import gzip
import tarfile
import zlib
from pathlib import Path

from analysis import TableError
from analysis.archive import manifest
from analysis.archive.manifest import MANIFEST, SIGNATURE, digest
from analysis.commands.bundle import NAME

_DAMAGED = (OSError, EOFError, tarfile.TarError, gzip.BadGzipFile, zlib.error)


def _packed(path: Path) -> tuple[dict[str, bytes], list[str]]:
    """The files in an archive, or in a folder that one was unpacked to; and a line for what is no plain file in it.

    Nothing is unpacked. Raises TableError where it cannot be read.
    """
    if path.is_dir():
        files = sorted(one for one in path.rglob("*") if not one.is_dir() or one.is_symlink())
        odd = [f"extra: {one.relative_to(path)} is a link" for one in files if one.is_symlink()]
        return {one.relative_to(path).as_posix(): one.read_bytes() for one in files if not one.is_symlink()}, odd
    found: dict[str, bytes] = {}
    odd = []
    try:
        with tarfile.open(path) as tar:
            for member in tar:
                name = member.name.removeprefix(f"{NAME}/")
                content = tar.extractfile(member) if member.isfile() else None
                if content is None or name in found:
                    odd.append(f"extra: {name} is {'there twice' if member.isfile() else 'no plain file'}")
                else:
                    found[name] = content.read()
    except _DAMAGED as error:  # one of tarfile's lists in further lines why it is none of each kind
        why = getattr(error, "strerror", None) or str(error).partition(":\n")[0]
        raise TableError(f"{path}: not a whole archive: {why}") from error
    return found, odd


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declares the options."""
    parser.add_argument("file", type=Path, metavar="FILE", help="an archive that `bundle` made, or its unpacked folder")
    parser.add_argument("--sign-key", type=Path, metavar="PUBLIC_KEY", help="it must be signed with this key")


def run(options: argparse.Namespace) -> int:
    """Name each file that differs, is missing or is extra, and who signed; 1 where anything is wrong."""
    files, wrong = _packed(options.file)
    if MANIFEST not in files:
        raise TableError(f"{options.file}: no {MANIFEST} in it: not an archive that `bundle` made")
    stated = manifest.parse(files[MANIFEST].decode(errors="replace"), f"{options.file}: {MANIFEST}")
    found = {name: digest(content) for name, content in files.items() if name not in manifest.OUTSIDE}
    wrong += manifest.differences(stated, found)
    for line in wrong:
        print(line)
    print(f"{options.file}: {len(stated)} files in the {MANIFEST}, {len(wrong) or 'none'} wrong")
    signed = _signature(files, options.sign_key)
    return 1 if wrong or not signed else 0


def _signature(files: dict[str, bytes], key: Path | None) -> bool:
    """Say what the signature shows; whether it is as good as was asked for."""
    if SIGNATURE not in files:
        print("not signed: this shows damage by accident, not a change on purpose")
        return key is None
    signed = manifest.verify(files[MANIFEST], files[SIGNATURE], key)
    print(f"signature: {signed.words}")
    if signed.good and key is None:
        print("whose key it is, its owner can tell: SIGN_KEY=author.pub checks that it is theirs")
    return signed.good
