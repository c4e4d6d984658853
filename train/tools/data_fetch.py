"""Fetch a dataset, verify its checksum, unpack it; interrupted, the same command goes on where it stopped.

    python -m train.tools.data_fetch cifar10 /data/cifar10
    python -m train.tools.data_fetch imdb_wiki /data/imdb_wiki --url https://... --checksum sha256:...

What needs a registration or has terms to agree to first is not fetched: the message says where to get it.
The exit status is 0 where the data is there, 2 where it is not.
"""

from __future__ import annotations

import argparse
import hashlib
import http.client
import shutil
import sys
import tarfile
import time
import urllib.error
import urllib.parse
import urllib.request
import zipfile
from dataclasses import dataclass
from pathlib import Path

from train.config.schema import ConfigError

_CHUNK_BYTES = 1 << 20
_TIMEOUT_S = 60.0
_TRIES = 5  # in a row that bring nothing
_PAUSE_S = 1.0  # after the first of them; doubled after each further one
_LENGTHS = {"md5": 32, "sha1": 40, "sha256": 64}  # hexadecimal digits


@dataclass(frozen=True)
class Source:
    """Where a dataset comes from. Without a URL it is not fetched."""

    terms: str  # for people: where it is, and what has to be done or agreed to
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
        "alone: agree to its terms there. No checksum is known here"
    ),
    "fruit": Source(
        'Kaggle gives "Fruits fresh and rotten for classification" (sriramr) after registration. No checksum is known'
    ),
}


def parse_checksum(text: str) -> tuple[str, str]:
    """The algorithm and the digits of `algorithm:digits`. Raises ConfigError."""
    algorithm, _, digits = text.partition(":")
    digits = digits.lower()
    if len(digits) != _LENGTHS.get(algorithm) or set(digits) - set("0123456789abcdef"):
        raise ConfigError(
            f"--checksum {text}: allowed are "
            + ", ".join(f"{name}: and {length} hexadecimal digits" for name, length in _LENGTHS.items())
        )
    return algorithm, digits


def digest(path: Path, algorithm: str) -> str:
    """The hexadecimal digest of a file."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, algorithm).hexdigest()


def progress(done: int, total: int | None, fetched: int, elapsed_s: float) -> str:
    """How far a download is: bytes done of `total`, of which `fetched` in `elapsed_s` seconds."""
    rate = fetched / elapsed_s if elapsed_s > 0 else 0.0
    text = f"{done / 1e6:,.1f} MB"
    if total:
        text += f" of {total / 1e6:,.1f} MB, {100 * done / total:.0f} %"
    text += f", {rate / 1e6:.1f} MB/s"
    return text + (f", {(total - done) / rate:.0f} s left" if total and rate else "")


def _total_bytes(response: http.client.HTTPResponse, begin: int) -> int | None:
    """Of the whole file, where the server says it."""
    length = response.headers.get("Content-Length")
    return begin + int(length) if length else None


def _transfer(url: str, part: Path) -> None:
    """One request for what is missing of `part`. Raises ConfigError, or OSError where it broke off."""
    begin = part.stat().st_size if part.exists() else 0
    request = urllib.request.Request(url, headers={"Range": f"bytes={begin}-"} if begin else {})
    try:
        response = urllib.request.urlopen(request, timeout=_TIMEOUT_S)
    except urllib.error.HTTPError as error:
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            # All of it is there; or it is longer than the file, which the server then says.
            size = (error.headers.get("Content-Range") or "").rpartition("/")[2]
            if size == str(begin):
                return
            part.unlink()
            raise OSError(f"{part} did not belong to {url}: begun anew") from error
        if error.code >= http.HTTPStatus.INTERNAL_SERVER_ERROR:
            raise OSError(f"the server answers {error.code} {error.reason}") from error
        raise ConfigError(f"{url}: the server answers {error.code} {error.reason}") from error
    with response:
        if response.status != http.HTTPStatus.PARTIAL_CONTENT:
            begin = 0  # a server that cannot resume sends everything
        total = _total_bytes(response, begin)
        free = shutil.disk_usage(part.parent).free
        if total is not None and total - begin > free:
            raise ConfigError(f"{part.parent}: {(total - begin) / 1e9:.1f} GB to fetch, {free / 1e9:.1f} GB free")
        with part.open("ab" if begin else "wb") as file:
            done, started, said = begin, time.monotonic(), 0.0
            while chunk := response.read(_CHUNK_BYTES):
                file.write(chunk)
                done += len(chunk)
                now = time.monotonic()
                if now - said > (1.0 if sys.stderr.isatty() else 10.0):
                    said = now
                    end = "\r" if sys.stderr.isatty() else "\n"
                    print(progress(done, total, done - begin, now - started), end=end, file=sys.stderr)
        if total is not None and done < total:
            raise OSError(f"broke off after {done:,} of {total:,} bytes")


def download(url: str, target: Path, checksum: str | None, pause_s: float = _PAUSE_S) -> None:
    """Fetch a file, going on with `target`.part where there is one, and verify it; only then it gets its name.

    Raises ConfigError where it cannot be had, or is not what it should be.
    """
    if urllib.parse.urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"{url}: must begin with http:// or https://")
    wanted = parse_checksum(checksum) if checksum else None
    part = target.with_name(target.name + ".part")
    failures = 0
    while True:
        before = part.stat().st_size if part.exists() else 0
        try:
            _transfer(url, part)
            break
        except (OSError, http.client.HTTPException) as error:
            there = part.stat().st_size if part.exists() else 0
            failures = 0 if there > before else failures + 1
            reason = getattr(error, "reason", None) or error
            if failures == _TRIES:
                raise ConfigError(
                    f"{url}: {reason}; tried {_TRIES} times. {there:,} bytes are kept in {part}, and the same command "
                    "goes on from there; or fetch it elsewhere and unpack it in the folder"
                ) from error
            print(f"{reason}; once more from byte {there:,}", file=sys.stderr)
            time.sleep(pause_s * 2**failures)
    if wanted:
        algorithm, digits = wanted
        if (found := digest(part, algorithm)) != digits:
            size = part.stat().st_size
            part.unlink()
            raise ConfigError(
                f"{url}: its {size:,} bytes have the {algorithm} {found}; expected is {digits}. Removed: it is "
                "damaged, or another file. Try again, or give --checksum where a newer one is published"
            )
        print(f"{target.name}: {algorithm} {digits} verified")
    else:
        print(f"{target.name}: not verified, no checksum is known. It has the sha256 {digest(part, 'sha256')}")
    part.replace(target)


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar or zip archive; nothing of it may lie outside the folder. Raises ConfigError."""
    try:
        if tarfile.is_tarfile(archive):
            with tarfile.open(archive) as tar:
                for member in tar.getmembers():
                    inside = (folder / member.name).resolve().is_relative_to(folder.resolve())
                    if not (inside and (member.isfile() or member.isdir())):
                        raise tarfile.TarError(f"{member.name} is no plain file or lies outside the folder")
                tar.extractall(folder)  # filter="data" came with Python 3.11.4: Debian 12 has 3.11.2
        elif zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                packed.extractall(folder)
        else:
            raise ConfigError(f"{archive}: neither a tar nor a zip archive")
    except (tarfile.TarError, zipfile.BadZipFile, EOFError) as error:
        raise ConfigError(f"{archive}: cannot be unpacked: {error}") from error


def fetch(dataset: str, folder: Path, url: str | None, checksum: str | None) -> None:
    """Fetch, verify and unpack a dataset into a folder. Raises ConfigError where it is not fetched, and says why."""
    source = SOURCES.get(dataset)
    if source is None:
        raise ConfigError(f"DATASET={dataset}: nothing to fetch; there are {', '.join(SOURCES)}")
    url = url or source.url
    if url is None:
        raise ConfigError(
            f"{dataset} is not fetched by the kit. {source.terms}. Where you have a URL that needs no login, "
            "give URL=... and, where one is published, CHECKSUM=md5:... or sha256:..."
        )
    if checksum is None and url == source.url:
        checksum = source.checksum
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path)).name
    if archive == folder:
        raise ConfigError(f"URL={url}: names no file")
    marker = folder / f".fetched-{archive.name}"
    if marker.exists():
        print(f"{archive.name} was fetched and unpacked before. Remove {marker} to fetch it again")
        return
    if archive.exists():
        print(f"{archive} is there already")
        if checksum:
            algorithm, digits = parse_checksum(checksum)
            if (found := digest(archive, algorithm)) != digits:
                raise ConfigError(f"{archive}: has the {algorithm} {found}; expected is {digits}. Remove it")
    else:
        print(f"fetching {url}")
        download(url, archive, checksum)
    print(f"unpacking into {folder}")
    unpack(archive, folder)
    marker.write_text(f"{url} {checksum or 'not verified'}\n")
    archive.unlink()
    print(f"done. Look at it with: make data-check DATASET={dataset} DATA_DIR={folder}")


def main() -> int:
    """Fetch the dataset that the arguments name."""
    parser = argparse.ArgumentParser(prog="python -m train.tools.data_fetch", description=__doc__.splitlines()[0])
    parser.add_argument("dataset", help=f"one of {', '.join(SOURCES)}")
    parser.add_argument("folder", type=Path, help="where it is unpacked")
    parser.add_argument("--url", help="fetch this instead of what the kit knows")
    parser.add_argument("--checksum", help="md5:..., sha1:... or sha256:... of the file at --url")
    arguments = parser.parse_args()
    try:
        fetch(arguments.dataset, arguments.folder.expanduser(), arguments.url, arguments.checksum)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename or arguments.folder}: {error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted: the same command goes on from here", file=sys.stderr)
    else:
        return 0
    return 2


if __name__ == "__main__":
    sys.exit(main())
