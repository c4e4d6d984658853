"""The manifest of an archive: the SHA-256 of every file in it, and who signed that, with OpenSSH's signatures."""

import hashlib
import re
import subprocess
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from analysis import TableError

MANIFEST = "MANIFEST"
SIGNATURE = "MANIFEST.sig"
OUTSIDE = (MANIFEST, SIGNATURE)  # of what the manifest lists
# What a signature is for: one that was made for something else does not count (ssh-keygen(1), -n).
NAMESPACE = "horovod-scaling-kit"
# The first line of a manifest that was signed: a comment to sha256sum. Without it a lost signature is not missed.
_SIGNED_BY = "# signed with "
_FINGERPRINT = r"SHA256:[\w+/]+"


def digest(content: bytes) -> str:
    """Hexadecimal SHA-256."""
    return hashlib.sha256(content).hexdigest()


def text(digests: Mapping[str, str], signer: str | None = None) -> str:
    """Return one line per file, by name, in the format of `sha256sum`. signer: the fingerprint of the signing key."""
    first = f"{_SIGNED_BY}{signer}\n" if signer else ""
    return first + "".join(f"{digests[name]}  {name}\n" for name in sorted(digests))


def signer(content: str) -> str | None:
    """Return the fingerprint of the key with which a manifest says that it was signed, or None."""
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
            raise TableError(f"{where}: line {number}: {shown(name)} occurs twice, must be once")
        digests[name] = stated
    return digests


def shown(name: str) -> str:
    """Return a name for printing, with control characters and bytes that are not UTF-8 escaped."""
    return name if name.isprintable() else repr(name)


def differences(stated: Mapping[str, str], digests: Mapping[str, str]) -> list[str]:
    """Return a line for each file that differs from the manifest, is missing, or is not in it."""
    lines = [f"differs: {name}" for name in stated if name in digests and digests[name] != stated[name]]
    lines += [f"missing: {shown(name)}" for name in stated if name not in digests]
    lines += [f"extra: {name} is not in the {MANIFEST}" for name in digests if name not in stated]
    return sorted(lines)


def signing_key(path: Path) -> Path:
    """Return the absolute path of a key. Raises TableError if there is no such file."""
    key = path.expanduser().absolute()
    if not key.is_file():
        raise TableError(f"SIGN_KEY={path}: no such file; give an SSH key, as ~/.ssh/id_ed25519")
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
        done = _ssh_keygen("-Y", "sign", "-f", str(key), "-n", NAMESPACE, str(path))
        if done.returncode:
            raise TableError(f"SIGN_KEY={key}: cannot sign: {_output(done)}")
        return (Path(folder) / SIGNATURE).read_bytes()


@dataclass(frozen=True)
class Signed:
    """The result of a verification: whether the signature is good, and the text of ssh-keygen.

    by: the fingerprint of its key; None if it is not good.
    """

    good: bool
    text: str
    by: str | None


def verify(content: bytes, signature: bytes, key: Path | None = None) -> Signed:
    """Verify the signature of these bytes, by `key` if given: a file with a public key.

    Raises TableError where `key` cannot be read.
    """
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / SIGNATURE
        path.write_bytes(signature)
        how = ["-n", NAMESPACE, "-s", str(path)]
        if key is None:
            done = _ssh_keygen("-Y", "check-novalidate", *how, content=content)
        else:
            signers = Path(folder) / "signers"
            signers.write_text(f"author {_public(key)}\n")
            done = _ssh_keygen("-Y", "verify", *how, "-I", "author", "-f", str(signers), content=content)
    good, by = done.returncode == 0, re.search(_FINGERPRINT, _output(done))
    return Signed(good, _output(done), by[0] if good and by else None)


def _public(key: Path) -> str:
    try:
        public = key.expanduser().read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise TableError(f"SIGN_KEY={key}: not a readable public key: {error}") from error
    if "PRIVATE KEY" in public or "\n" in public:
        raise TableError(f"SIGN_KEY={key}: give the public key of who signed, as id_ed25519.pub")
    return public


def _ssh_keygen(*arguments: str, content: bytes | None = None) -> subprocess.CompletedProcess[bytes]:
    try:
        return subprocess.run(["ssh-keygen", *arguments], input=content, capture_output=True)
    except FileNotFoundError as error:
        raise TableError("ssh-keygen is not installed: it signs and verifies (Debian: openssh-client)") from error


def _output(done: subprocess.CompletedProcess[bytes]) -> str:
    lines = (done.stdout + done.stderr).decode(errors="replace").split("\n")
    return "; ".join(line.strip() for line in lines if line.strip()) or f"exit status {done.returncode}"
