"""Download a dataset, verify its checksum and unpack it; after an interruption the same command resumes.

    python -m train.tools.data_fetch cifar10 /data/cifar10
    python -m train.tools.data_fetch imdb_wiki /data/imdb_wiki --url https://... --checksum sha256:...

A file is resumed where it stopped, verified, and only then given its name. Datasets that need a registration, or terms
to be agreed to, are not downloaded: the message says where to get them. The exit status is 0 if the data is there, 2 if
it is not.
"""

import argparse
import gzip
import http.client
import lzma
import os
import shutil
import stat
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from rich.console import Console
from rich.progress import DownloadColumn, Progress, TimeRemainingColumn, TransferSpeedColumn

from common.printable import printable_output
from common.terminal import show
from record.run_files import digest
from train.config.checks import ConfigError, reported

_TIMEOUT_S = 60.0
_ATTEMPTS = 5  # in a row without a new byte
_PAUSE_S = 1.0  # after the first of them; doubled after each further one
_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64}  # hexadecimal digits

_CHUNK_BYTES = 1 << 20
# The errors of tarfile and zipfile: RuntimeError if a password is needed, NotImplementedError for an unknown method.
_DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError,
    NotImplementedError,
)  # fmt: skip


def parse_checksum(text: str) -> tuple[str, str]:
    """Return the algorithm and the hexadecimal digits of `algorithm:digits`. Raises ConfigError."""
    algorithm, _, digits = text.partition(":")
    digits = digits.lower()
    if len(digits) != _LENGTHS.get(algorithm) or set(digits) - set("0123456789abcdef"):
        raise ConfigError(
            f"CHECKSUM={text}: allowed are "
            + ", ".join(f"{name}: and {length} hexadecimal digits" for name, length in _LENGTHS.items())
        )
    return algorithm, digits


def download(url: str, target: Path, checksum: str | None, pause_s: float = _PAUSE_S) -> None:
    """Download a file, resuming from `target`.part if it exists, and verify it before it is named `target`.

    checksum: as `parse_checksum` takes it; None: nothing is verified.
    Raises ConfigError if the file cannot be downloaded, or is not the expected one.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"{url}: must begin with http:// or https://")
    expected = parse_checksum(checksum) if checksum else None
    part = target.with_name(target.name + ".part")
    _transfer_all(url, part, pause_s)
    if expected is None:
        show(f"{target.name}: not verified, no checksum is known. It has the sha256 {digest(part)}")
    elif difference := _difference(part, *expected):
        size = _size(part)
        part.unlink()
        raise ConfigError(
            f"{url}: its {size:,} bytes have {difference}. Removed: it is damaged, or another file. Try again, or give "
            "CHECKSUM= if a newer one is published"
        )
    else:
        show(f"{target.name}: {checksum} verified")
    part.replace(target)


def _difference(file: Path, algorithm: str, digits: str) -> str:
    """Return how the checksum of a file differs from the expected one, as text; "" if it does not."""
    actual = digest(file, algorithm)
    return "" if actual == digits else f"the {algorithm} {actual}; expected {digits}"


def _transfer_all(url: str, part: Path, pause_s: float) -> None:
    """Request the rest of `part` until it is complete. Raises ConfigError after too many failed attempts."""
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
            show(f"{reason}; retrying from byte {_size(part):,}", file=sys.stderr)
            time.sleep(pause_s * 2**failures)


class SafeRedirects(urllib.request.HTTPRedirectHandler):
    """Refuses redirects from HTTPS to another scheme, which anyone on the network could have written."""

    def redirect_request(self, request: urllib.request.Request, *answer: Any) -> urllib.request.Request | None:
        """Return the request for the new address. Raises ConfigError if it is refused."""
        redirected, url = super().redirect_request(request, *answer), answer[-1]
        if urllib.parse.urlsplit(url).scheme not in ("https", request.type):
            raise ConfigError(f"{request.full_url}: redirected to {url}; allowed are https and the same scheme")
        return redirected


_open = urllib.request.build_opener(SafeRedirects).open


def _transfer(url: str, part: Path) -> None:
    """Make one request for the rest of `part`. Raises ConfigError, or OSError if it can be retried."""
    response = _request(url, part)
    if response is None:
        return
    with response:
        resumed = response.status == http.HTTPStatus.PARTIAL_CONTENT  # else the server sends the whole file
        begin, sent = _size(part) if resumed else 0, response.headers.get("Content-Range") or ""
        if resumed and not sent.startswith(f"bytes {begin}-"):
            part.unlink()  # the server does not send the rest alone
            raise OSError(f"asked for bytes from {begin:,} on, the server sends {sent}")
        total = None if response.length is None else begin + response.length  # None: not known
        if total is not None:
            _check_room(part.parent, total - begin, "fetch")
        most = total if total is not None else begin + shutil.disk_usage(part.parent).free // 2
        with part.open("ab" if begin else "wb") as file:
            done = _copy(response, file, begin, total, most)
        if total is not None and done < total:
            raise OSError(f"connection closed after {done:,} of {total:,} bytes")


def _request(url: str, part: Path) -> http.client.HTTPResponse | None:
    """Return the server's response with the rest of `part`; None if it is complete. Raises as `_transfer`."""
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


def _copy(response: http.client.HTTPResponse, file: BinaryIO, begin: int, total: int | None, most: int) -> int:
    """Return the size of the file after the response is appended to its first `begin` bytes; shows the progress.

    Raises ConfigError if it gets more than `most` bytes: the server does not say how many it will send.
    """
    done, columns = begin, (DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    with Progress(*columns, console=Console(file=sys.__stderr__)) as shown:
        task = shown.add_task("", total=total, completed=begin)
        while chunk := response.read1(_CHUNK_BYTES):  # what is here: an interruption keeps it
            file.write(chunk)
            done += len(chunk)
            if done > most:
                raise ConfigError(
                    f"{response.url}: the server does not say how long this file is, and half of what was free in "
                    f"{Path(file.name).parent} is full ({most / 1e9:.1f} GB); there would be no room to unpack it"
                )
            shown.update(task, completed=done)
    return done


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


@dataclass(frozen=True)
class Source:
    """The source of a dataset. Without a URL it is not downloaded."""

    terms: str  # for people: where it is, and registration or terms
    url: str | None = None
    checksum: str | None = None  # algorithm:hexadecimal digits, as its authors or widely used loaders have it


SOURCES = {
    "cifar10": Source(
        "https://www.cs.toronto.edu/~kriz/cifar.html",
        "https://www.cs.toronto.edu/~kriz/cifar-10-python.tar.gz",
        "md5:c58f30108f718f92721af3b95e74349a",
    ),
    "caltech256": Source(
        "https://doi.org/10.22002/D1.20087",
        "https://data.caltech.edu/records/nyy15-4j048/files/256_ObjectCategories.tar",
        "md5:67b4f42ca05d46448c6bb8ecd2220f6d",
    ),
    "imagenet": Source(
        "https://image-net.org gives it after registration, for research. Then convert it to TFRecord files"
    ),
    "imdb_wiki": Source(
        "https://data.vision.ee.ethz.ch/cvl/rrothe/imdb-wiki/ gives imdb_crop.tar and wiki_crop.tar, for research "
        "only: agree to its terms there. No checksum is known here"
    ),
    "fruit": Source(
        'Kaggle gives "Fruits fresh and rotten for classification" (sriramr) after registration. No checksum is known'
    ),
}


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar or zip archive into a folder.

    Raises ConfigError, also for members outside the folder, and if there is no room for them.
    """
    try:
        if tarfile.is_tarfile(archive):
            _unpack_tar(archive, folder)
        elif zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                _check_room(folder, sum(member.file_size for member in packed.infolist()), "unpack")
                packed.extractall(folder)  # sets neither owners nor modes, and compares each CRC
        else:
            raise ConfigError(f"{archive}: neither a tar nor a zip archive")
    except _DAMAGED as error:
        raise ConfigError(f"{archive}: cannot be unpacked: {error}. Remove it, and fetch it again") from error


def _unpack_tar(archive: Path, folder: Path) -> None:
    """Unpack as tarfile's filter "data" does, which came with Python 3.11.4: Debian 12 has 3.11.2."""
    with tarfile.open(archive) as tar:
        for member in tar.getmembers():
            inside = (folder / member.name).resolve().is_relative_to(folder.resolve())
            if not (inside and (member.isfile() or member.isdir())):
                raise tarfile.TarError(f"{member.name} is not a regular file or is outside the folder")
            member.mode = 0o755 if member.isdir() or member.mode & stat.S_IXUSR else 0o644
            member.uid, member.gid, member.uname, member.gname = os.geteuid(), os.getegid(), "", ""
        while tar.fileobj and tar.fileobj.read(_CHUNK_BYTES):  # reads to the checksum of a compressed archive
            pass
        _check_room(folder, sum(member.size for member in tar.getmembers()), "unpack")
        tar.extractall(folder)


def _check_room(folder: Path, needed: int, purpose: str) -> None:
    """Raise ConfigError if so many bytes do not fit on the disk of a folder. purpose: a verb, for the message."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise ConfigError(f"{folder}: {needed / 1e9:.1f} GB to {purpose}, {free / 1e9:.1f} GB free")


def fetch(dataset: str, folder: Path, url: str | None, checksum: str | None) -> None:
    """Download, verify and unpack a dataset into a folder. Raises ConfigError, with the reason, on failure."""
    url, checksum = _source(dataset, url, checksum)
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path)).name
    if archive == folder:
        raise ConfigError(f"URL={url}: does not name a file")
    marker = folder / f".fetched-{archive.name}"
    if marker.exists():
        show(f"{archive.name} was fetched and unpacked before. Remove {marker} to fetch it again")
        return
    if archive.exists():
        show(f"{archive} is there already")
        if checksum and (difference := _difference(archive, *parse_checksum(checksum))):
            raise ConfigError(f"{archive}: has {difference}. Remove it")
    else:
        show(f"fetching {url}")
        download(url, archive, checksum)
    show(f"unpacking into {folder}")
    unpack(archive, folder)
    marker.write_text(f"{url} {checksum or 'not verified'}\n")
    archive.unlink()
    show(f"done. Check it with: make data-check DATASET={dataset} DATA_DIR={folder}")


def _source(dataset: str, url: str | None, checksum: str | None) -> tuple[str, str | None]:
    """Return URL and checksum: those of the user, else the known ones. Raises ConfigError without a URL."""
    source = SOURCES.get(dataset)
    if source is None:
        raise ConfigError(f"DATASET={dataset}: nothing to fetch; there are {', '.join(SOURCES)}")
    if url is None and source.url is None:
        raise ConfigError(
            f"{dataset} is not fetched by the kit. {source.terms}. If you have a URL that needs no login, "
            "give URL=... and, if one is published, CHECKSUM=md5:... or sha256:..."
        )
    if url is None or url == source.url:
        return str(source.url), checksum or source.checksum
    return url, checksum


def main() -> int:
    """Fetch the dataset that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m train.tools.data_fetch", description=__doc__.splitlines()[0])
    parser.add_argument("dataset", help=f"one of {', '.join(SOURCES)}")
    parser.add_argument("folder", type=Path, help="where it is unpacked")
    parser.add_argument("--url", help="fetch this instead of the known URL")
    parser.add_argument("--checksum", help="md5:..., sha1:... or sha256:... of the file at --url")
    arguments = parser.parse_args()
    try:
        fetch(arguments.dataset, arguments.folder.expanduser(), arguments.url, arguments.checksum)
    except KeyboardInterrupt:
        show("interrupted: the same command resumes from here", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    with printable_output():
        sys.exit(reported(main))
