"""Download one file over HTTP: resume where it stopped, verify its checksum, and only then give it its name."""

import http.client
import shutil
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from train.config.checks import ConfigError
from train.record.files import digest

_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 60.0
_ATTEMPTS = 5  # in a row without a new byte
_PAUSE_S = 1.0  # after the first of them; doubled after each further one
_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64}  # hexadecimal digits


@dataclass(frozen=True)
class Checksum:
    """The digest that a file must have."""

    algorithm: str
    digits: str  # hexadecimal


def parse_checksum(text: str) -> Checksum:
    """Return the Checksum of `algorithm:digits`. Raises ConfigError."""
    algorithm, _, digits = text.partition(":")
    digits = digits.lower()
    if len(digits) != _LENGTHS.get(algorithm) or set(digits) - set("0123456789abcdef"):
        raise ConfigError(
            f"--checksum {text}: allowed are "
            + ", ".join(f"{name}: and {length} hexadecimal digits" for name, length in _LENGTHS.items())
        )
    return Checksum(algorithm, digits)


def progress(done: int, total: int | None, fetched: int, elapsed_s: float) -> str:
    """Return the state of a download, in words: `done` of `total` bytes, of which `fetched` in `elapsed_s` seconds."""
    rate = fetched / elapsed_s if elapsed_s > 0 else 0.0
    text = f"{done / 1e6:,.1f} MB"
    if total:
        text += f" of {total / 1e6:,.1f} MB, {100 * done / total:.0f} %"
    text += f", {rate / 1e6:.1f} MB/s"
    return text + (f", {(total - done) / rate:.0f} s left" if total and rate else "")


def download(url: str, target: Path, checksum: str | None, pause_s: float = _PAUSE_S) -> None:
    """Download a file, resuming from `target`.part where there is one, and verify it before it is named `target`.

    checksum: as `parse_checksum` takes it; None: nothing is verified.
    Raises ConfigError if the file cannot be had, or is not the expected one.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"{url}: must begin with http:// or https://")
    expected = parse_checksum(checksum) if checksum else None
    part = target.with_name(target.name + ".part")
    _transfer_all(url, part, pause_s)
    print(f"{target.name}: {_verified(url, part, expected)}")
    part.replace(target)


def _transfer_all(url: str, part: Path, pause_s: float) -> None:
    """Request what is missing of `part` until it is complete. Raises ConfigError after too many attempts in vain."""
    failures = 0
    while True:
        before = _size(part)
        try:
            _transfer(url, part)
            return
        except (OSError, http.client.HTTPException) as error:
            failures = 0 if _size(part) > before else failures + 1
            reason = getattr(error, "reason", None) or error
            if failures == _ATTEMPTS:
                raise ConfigError(
                    f"{url}: {reason}; tried {_ATTEMPTS} times. {_size(part):,} bytes are kept in {part}, and the same "
                    "command resumes from there; or fetch it elsewhere and unpack it in the folder"
                ) from error
            print(f"{reason}; retrying from byte {_size(part):,}", file=sys.stderr)
            time.sleep(pause_s * 2**failures)


class SameKind(urllib.request.HTTPRedirectHandler):
    """Follows no redirect from HTTPS to HTTP, which anyone on the way could have written, nor to anything else."""

    def redirect_request(self, request: urllib.request.Request, *answer: Any) -> urllib.request.Request | None:
        """Return the request for the new address. Raises ConfigError where it must not be made."""
        redirected, url = super().redirect_request(request, *answer), answer[-1]
        if urllib.parse.urlsplit(url).scheme not in ("https", request.type):
            raise ConfigError(f"{request.full_url}: redirected to {url}; allowed are https and the same scheme")
        return redirected


_open = urllib.request.build_opener(SameKind).open


def _transfer(url: str, part: Path) -> None:
    """Make one request for what is missing of `part`. Raises ConfigError, or OSError if it can be retried."""
    response = _request(url, part)
    if response is None:
        return
    with response:
        resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT  # else the server sends the whole file
        begin = _size(part) if resumed else 0
        if resumed and not (response.headers.get("Content-Range") or "").startswith(f"bytes {begin}-"):
            part.unlink()  # what is missing cannot be had alone
            raise OSError(
                f"asked for bytes from {begin:,} on, the server sends {response.headers.get('Content-Range')}"
            )
        length = response.headers.get("Content-Length")
        if length and not (length.isascii() and length.isdigit()):
            raise ConfigError(f"{url}: the server says Content-Length: {length}")
        total = begin + int(length) if length else None
        free = shutil.disk_usage(part.parent).free
        if total is not None and total - begin > free:
            raise ConfigError(f"{part.parent}: {(total - begin) / 1e9:.1f} GB to fetch, {free / 1e9:.1f} GB free")
        with part.open("ab" if begin else "wb") as file:
            done = _copy(response, file, begin, total)
        if total is not None and done < total:
            raise OSError(f"connection closed after {done:,} of {total:,} bytes")


def _request(url: str, part: Path) -> http.client.HTTPResponse | None:
    """Return the server's response with what is missing of `part`; None where nothing is. Raises as `_transfer`."""
    begin = _size(part)
    request = urllib.request.Request(url, headers={"Range": f"bytes={begin}-"} if begin else {})
    try:
        response: http.client.HTTPResponse = _open(request, timeout=_TIMEOUT_S)
        return response
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            # The part is complete, or longer than the file; the server gives the file's size.
            size = (error.headers.get("Content-Range") or "").rpartition("/")[2]
            if size == str(begin):
                return None
            part.unlink()
            raise OSError(f"{part} was not part of {url}: starting again") from error
        if error.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
            raise OSError(f"the server answers {error.code} {error.reason}") from error
        raise ConfigError(f"{url}: the server answers {error.code} {error.reason}") from error


def _copy(response: http.client.HTTPResponse, file: BinaryIO, begin: int, total: int | None) -> int:
    """Return the size of the file after the response is appended to its first `begin` bytes; shows the progress."""
    terminal = sys.stderr.isatty()
    done, started, shown = begin, time.monotonic(), 0.0
    while chunk := response.read(_CHUNK_BYTES):
        file.write(chunk)
        done += len(chunk)
        now = time.monotonic()
        if now - shown > (1.0 if terminal else 10.0):
            shown = now
            text = progress(done, total, done - begin, now - started)
            print(text, end="\r" if terminal else "\n", file=sys.__stderr__)
    return done


def _verified(url: str, part: Path, expected: Checksum | None) -> str:
    """Return how the file was verified, in words. Removes it and raises ConfigError if its checksum differs."""
    if expected is None:
        return f"not verified, no checksum is known. It has the sha256 {digest(part)}"
    digits = digest(part, expected.algorithm)
    if digits != expected.digits:
        size = _size(part)
        part.unlink()
        raise ConfigError(
            f"{url}: its {size:,} bytes have the {expected.algorithm} {digits}; expected {expected.digits}. Removed: "
            "it is damaged, or another file. Try again, or give --checksum if a newer one is published"
        )
    return f"{expected.algorithm} {expected.digits} verified"


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
