"""Download a dataset, verify its checksum and unpack it; after an interruption the same command resumes.

    python -m train.tools.data_fetch cifar10 /data/cifar10
    python -m train.tools.data_fetch imdb_wiki /data/imdb_wiki --url https://... --checksum sha256:...

Datasets that need a registration, or terms to be agreed to, are not downloaded: the message says where to get them.
The exit status is 0 if the data is there, 2 if it is not.
"""

import argparse
import gzip
import lzma
import os
import shutil
import stat
import sys
import tarfile
import urllib.parse
import zipfile
import zlib
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from train.config.checks import ConfigError
from train.record.files import digest
from train.record.printable import printable_output
from train.tools.download import download, parse_checksum

_CHUNK_BYTES = 1 << 20
# What tarfile and zipfile raise: RuntimeError where a password is needed, NotImplementedError for an unknown method.
_DAMAGED = (
    tarfile.TarError, zipfile.BadZipFile, gzip.BadGzipFile, zlib.error, lzma.LZMAError, EOFError, RuntimeError,
    NotImplementedError,
)  # fmt: skip


@dataclass(frozen=True)
class Source:
    """The source of a dataset. Without a URL it is not downloaded."""

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
        "only: agree to its terms there. No checksum is known here"
    ),
    "fruit": Source(
        'Kaggle gives "Fruits fresh and rotten for classification" (sriramr) after registration. No checksum is known'
    ),
}


def unpack(archive: Path, folder: Path) -> None:
    """Unpack a tar or zip archive into a folder.

    Raises ConfigError, also for members outside the folder, and where there is no room for them.
    """
    try:
        if tarfile.is_tarfile(archive):
            _unpack_tar(archive, folder)
        elif zipfile.is_zipfile(archive):
            with zipfile.ZipFile(archive) as packed:
                _check_room(folder, (member.file_size for member in packed.infolist()))
                packed.extractall(folder)  # which sets neither owners nor modes, and compares each CRC
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
        while tar.fileobj and tar.fileobj.read(_CHUNK_BYTES):  # up to the checksum of a compressed archive
            pass
        _check_room(folder, (member.size for member in tar.getmembers()))
        tar.extractall(folder)


def _check_room(folder: Path, sizes: Iterable[int]) -> None:
    """Raise ConfigError where files of these sizes do not fit on the disk of a folder."""
    needed, free = sum(sizes), shutil.disk_usage(folder).free
    if needed > free:
        raise ConfigError(f"{folder}: {needed / 1e9:.1f} GB to unpack, {free / 1e9:.1f} GB free")


def fetch(dataset: str, folder: Path, url: str | None, checksum: str | None) -> None:
    """Download, verify and unpack a dataset into a folder. Raises ConfigError, with the reason, where it cannot."""
    url, checksum = _source(dataset, url, checksum)
    folder.mkdir(parents=True, exist_ok=True)
    archive = folder / Path(urllib.parse.unquote(urllib.parse.urlsplit(url).path)).name
    if archive == folder:
        raise ConfigError(f"URL={url}: does not name a file")
    marker = folder / f".fetched-{archive.name}"
    if marker.exists():
        print(f"{archive.name} was fetched and unpacked before. Remove {marker} to fetch it again")
        return
    if archive.exists():
        print(f"{archive} is there already")
        _check_present(archive, checksum)
    else:
        print(f"fetching {url}")
        download(url, archive, checksum)
    print(f"unpacking into {folder}")
    unpack(archive, folder)
    marker.write_text(f"{url} {checksum or 'not verified'}\n")
    archive.unlink()
    print(f"done. Check it with: make data-check DATASET={dataset} DATA_DIR={folder}")


def _source(dataset: str, url: str | None, checksum: str | None) -> tuple[str, str | None]:
    """Return URL and checksum to use: the given ones, else the known ones. Raises ConfigError where there is no URL."""
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


def _check_present(archive: Path, checksum: str | None) -> None:
    """Raise ConfigError where an archive that was there before does not have the checksum."""
    if checksum is None:
        return
    expected = parse_checksum(checksum)
    digits = digest(archive, expected.algorithm)
    if digits != expected.digits:
        raise ConfigError(f"{archive}: has the {expected.algorithm} {digits}; expected {expected.digits}. Remove it")


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
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
    except OSError as error:
        print(f"error: {error.filename or arguments.folder}: {error.strerror or error}", file=sys.stderr)
    except KeyboardInterrupt:
        print("interrupted: the same command resumes from here", file=sys.stderr)
    else:
        return 0
    return 2


if __name__ == "__main__":
    with printable_output():
        sys.exit(main())
