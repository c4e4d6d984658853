"""The files of an archive, read one by one without unpacking; their SHA-256 in its manifest, and who signed that.

Signatures are those of OpenSSH.
"""

import codecs
import gzip
import hashlib
import io
import re
import subprocess
import tarfile
import tempfile
import unicodedata
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from analysis import TableError
from analysis.verify.contents import as_written
from common import bounded_files as bounded
from common.grouping import grouped
from common.programs import finished
from record.schema import is_backup

MANIFEST = "MANIFEST"
SIGNATURE = "MANIFEST.sig"
CLAIMS = "claims.json"  # the verdicts on the author's records
OUTSIDE = (MANIFEST, SIGNATURE)  # not listed in the manifest
# The purpose of a signature: one for another purpose does not count (ssh-keygen(1), -n).
NAMESPACE = "horovod-scaling-kit"
# What these files may have at most: OpenSSH's signatures have 1 kB, a line of a manifest about 150 bytes.
_MOST_BYTES = {SIGNATURE: 100_000, MANIFEST: 20_000_000}
_SIGN_WITHIN_S = 600.0  # somebody types a passphrase, or touches a key
# The first line of a signed manifest, a comment to sha256sum. It shows that a signature is missing.
_SIGNED_BY = "# signed with "
_FINGERPRINT = r"SHA256:[\w+/]+"


def digest(content: bytes) -> str:
    """Return the hexadecimal SHA-256 of some bytes."""
    return hashlib.sha256(content).hexdigest()


def text(digests: Mapping[str, str], signer: str | None = None) -> str:
    """Return one line per file, by name, in the format of `sha256sum`. signer: the fingerprint of the signing key."""
    first = f"{_SIGNED_BY}{signer}\n" if signer else ""
    return first + "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def signer(content: str) -> str | None:
    """Return the fingerprint of the signing key that a manifest names, or None."""
    match = re.match(f"{_SIGNED_BY}({_FINGERPRINT})\n", content)
    return match[1] if match else None


def parse(content: str, where: str) -> dict[str, str]:
    """Return the digests in a manifest by file name. Raises TableError naming a malformed line."""
    digests: dict[str, str] = {}
    lines = content.removesuffix("\n").split("\n")
    first = 1 if signer(content) else 0
    for number, line in enumerate(lines[first:], 1 + first):
        stated, separator, name = line.partition("  ")
        if not separator or not re.fullmatch("[0-9a-f]{64}", stated) or not name:
            raise TableError(f"{where}: line {number}: {line[:80]!r} given, must be a SHA-256, two spaces and a file")
        if name in digests:
            raise TableError(f"{where}: line {number}: {printable(name)} occurs twice, must be once")
        digests[name] = stated
    return digests


def printable(name: str) -> str:
    """Return a name for printing, with control characters and bytes that are not UTF-8 escaped."""
    return name if name.isprintable() else repr(name)


def differences(stated: Mapping[str, str], digests: Mapping[str, str]) -> list[str]:
    """Return a line for each file that differs from the manifest, is missing, or is not in it."""
    lines = [f"differs: {name}" for name in stated if name in digests and digests[name] != stated[name]]
    lines += [f"missing: {printable(name)}" for name in stated if name not in digests]
    lines += [f"extra: {name} is not in the {MANIFEST}" for name in digests if name not in stated]
    return sorted(lines)


def signing_key(path: Path) -> Path:
    """Return the absolute path of a key. Raises TableError if there is no such file, or nothing can sign with it."""
    key = path.expanduser().absolute()
    if not key.is_file():
        raise TableError(f"SIGN_KEY={path}: no such file; give an SSH key, as ~/.ssh/id_ed25519")
    fingerprint(key)
    return key


def fingerprint(key: Path) -> str:
    """Return the fingerprint of a key, as ssh-keygen shows it. Raises TableError if it is no key."""
    done = _ssh_keygen("-l", "-f", str(key))
    match = re.search(_FINGERPRINT, _output(done))
    if done.returncode or not match:
        raise TableError(f"SIGN_KEY={key}: not an SSH key: {_output(done)}")
    return match[0]


def sign(content: bytes, key: Path) -> bytes:
    """Return the signature of these bytes with a private key, or with a public one whose private part an agent holds.

    Raises TableError where the key cannot be used; ssh-keygen itself asks for a passphrase.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / MANIFEST
        path.write_bytes(content)
        done = _ssh_keygen("-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(path), within_s=_SIGN_WITHIN_S)
        if done.returncode:
            raise TableError(f"SIGN_KEY={key}: cannot sign: {_output(done)}")
        return (Path(folder) / SIGNATURE).read_bytes()


def verify(content: bytes, signature: bytes, key: Path | None = None) -> tuple[str | None, str]:
    """Return the fingerprint of the key of a good signature of these bytes, else None, and the text of ssh-keygen.

    key: a file with the public key that must have signed. Raises TableError where it cannot be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / SIGNATURE
        path.write_bytes(signature)
        arguments = ["-n", NAMESPACE, "-s", str(path)]
        if key is None:
            done = _ssh_keygen("-Y", "check-novalidate", *arguments, content=content)
        else:
            signers = Path(folder) / "signers"
            signers.write_text(f"author {_public(key)}\n")
            done = _ssh_keygen("-Y", "verify", *arguments, "-I", "author", "-f", str(signers), content=content)
    by = re.search(_FINGERPRINT, _output(done)) if done.returncode == 0 else None
    return by[0] if by else None, _output(done)


def _public(key: Path) -> str:
    try:
        public = bounded.read(key.expanduser(), _MOST_BYTES[SIGNATURE]).decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or error
        raise TableError(f"SIGN_KEY={key}: not a readable public key: {why}") from error
    if "PRIVATE KEY" in public or "\n" in public:
        raise TableError(f"SIGN_KEY={key}: give the public key of who signed, as id_ed25519.pub")
    return public


def _ssh_keygen(*arguments: str, content: bytes = b"", within_s: float = 60.0) -> subprocess.CompletedProcess[str]:
    try:
        return finished(["ssh-keygen", *arguments], within_s, content)
    except FileNotFoundError as error:
        raise TableError("ssh-keygen is not installed: it signs and verifies (Debian: openssh-client)") from error


def _output(done: subprocess.CompletedProcess[str]) -> str:
    lines = (done.stdout + done.stderr).split("\n")
    return "; ".join(line.strip() for line in lines if line.strip()) or f"exit status {done.returncode}"


ROOT = "bundle"  # the folder that an archive unpacks to
GZIP = b"\x1f\x8b"  # its first bytes
_DAMAGED = (OSError, EOFError, ValueError, tarfile.TarError, zlib.error)
# Text packs to a tenth. An archive that is meant to fill a disk packs to a thousandth; it is not read to its end.
MOST_TIMES, MOST_BYTES = 100, 1 << 28
_BLOCK_BYTES = 1 << 20
_UP = {"", ".", ".."}
# What editors, patch and file managers leave behind.
_LITTER = re.compile(r"(.*/)?([^/]+(~|\.orig|\.bak|\.swp)|\.DS_Store|Thumbs\.db|desktop\.ini)")

PackedEntry = tuple[str, str, IO[bytes] | None]  # name, problem ("": none), content


@dataclass(frozen=True)
class Packed:
    """The SHA-256 of each file by its name; the manifest and its signature; a line for what no archive should hold.

    plain: the SHA-256 of each file with the line ends that `bundle` writes. launches: the records, and the files by
    which they are verified.
    """

    digests: dict[str, str] = field(default_factory=dict)
    plain: dict[str, str] = field(default_factory=dict)
    launches: dict[str, bytes] = field(default_factory=dict)
    outside: dict[str, bytes] = field(default_factory=dict)
    extra: list[str] = field(default_factory=list)


def read_packed(path: Path) -> Packed:
    """Read the contents of an archive or folder. Raises TableError naming the file at which it cannot be read."""
    contents, where = Packed(), ""
    if not path.exists():
        raise TableError(f"{path}: no such file; make bundle writes figures/bundle.tar.gz")
    if not (path.is_file() or path.is_dir()):
        raise TableError(f"{path}: neither a regular file nor a folder; give an archive that make bundle wrote")
    try:
        for name, problem, content in _folder_entries(path) if path.is_dir() else _archive_entries(path):
            where = f", in or after {printable(name)}"
            if not name.isprintable():
                problem = "is not a name that `bundle` writes"
            elif not problem and (name in contents.digests or name in contents.outside):
                problem = "occurs twice"
            if problem or content is None:
                contents.extra.append(f"extra: {printable(name)} {problem}")
            elif name in OUTSIDE:
                contents.outside[name] = _whole(content, _MOST_BYTES[name])
            elif name.startswith("results/") and name.endswith((".json", ".jsonl")):
                contents.launches[name] = _whole(content, bounded.MOST_BYTES)
                contents.digests[name], contents.plain[name] = _digests(io.BytesIO(contents.launches[name]))
            else:
                contents.digests[name], contents.plain[name] = _digests(content)
    except _DAMAGED as error:
        raise TableError(f"{path}: not a whole archive{where}: {getattr(error, 'strerror', None) or error}") from error
    contents.extra.extend(_clashes([*contents.digests, *contents.outside]))
    return contents


def _digests(content: IO[bytes]) -> tuple[str, str]:
    """Return the SHA-256 of a file, and the one without what editors and git do to line ends and at its begin."""
    whole, plain, mark = hashlib.sha256(), hashlib.sha256(), codecs.BOM_UTF8
    while line := content.readline(_BLOCK_BYTES):
        whole.update(line)
        plain.update((line[:-2] + b"\n" if line.endswith(b"\r\n") else line).removeprefix(mark))
        mark = b""
    return whole.hexdigest(), plain.hexdigest()


def harmless(stated: Mapping[str, str], packed: Packed, unpacked: bool) -> dict[str, str]:
    """Return the files that differ from the manifest in nothing that is said or used, each with the difference.

    unpacked: whether it is a folder, in which backups may be.
    """
    named = {name: "line ends or white space differ; it says the same"
             for name, sha256 in stated.items()
             if packed.digests.get(name, sha256) != sha256 and _says_the_same(packed, name, sha256)}  # fmt: skip
    extra = packed.digests.keys() - stated.keys() if unpacked else ()
    backups = (name for name in extra if _LITTER.fullmatch(name) or is_backup(Path(name)))
    return named | dict.fromkeys(backups, f"a backup: not in the {MANIFEST}, and not used")


def _says_the_same(packed: Packed, name: str, sha256: str) -> bool:
    if packed.plain[name] == sha256:
        return True
    try:
        file, content = name.rpartition("/")[2], packed.launches.get(name)
        return content is not None and digest(as_written(file, content)) == sha256
    except ValueError:
        return False


def _whole(content: IO[bytes], most_bytes: int) -> bytes:
    data = content.read(most_bytes + 1)
    if len(data) > most_bytes:
        raise ValueError(f"it has more than {most_bytes / 1e6:g} MB, which no such file has")
    return data


def _folder_entries(folder: Path) -> Iterator[PackedEntry]:
    for path in sorted(folder.rglob("*")):
        name = path.relative_to(folder).as_posix()
        if path.is_symlink() or not (path.is_file() or path.is_dir()):
            yield name, "is not a regular file", None
        elif path.is_file():
            with path.open("rb") as content:
                yield name, "", content


def _archive_entries(path: Path) -> Iterator[PackedEntry]:
    with path.open("rb") as file:
        if file.read(len(GZIP)) != GZIP:
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
                regular = member.isreg() and not member.issparse()
                yield name, "" if regular else "is not a regular file", tar.extractfile(member) if regular else None
        packed.seek(tar.offset)
        while block := packed.read(_BLOCK_BYTES):  # zeros, up to the checksum of the compression
            if any(block):
                raise tarfile.ReadError("what follows is not a file")


class _Forward(gzip.GzipFile):
    """A compressed file that is read forward, and up to `most` bytes: a malicious one may never end."""

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
    for same in grouped(names, lambda name: unicodedata.normalize("NFC", name).casefold()).values():
        if len(same) > 1:
            yield f"extra: {' and '.join(sorted(same))} are one file on a system that ignores case"
