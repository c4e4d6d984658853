"""`bundle`: one archive for an artifact reviewer: records, figures and the page, with the SHA-256 of each file.

The same records give the same bytes.
"""

from __future__ import annotations

import argparse
import contextlib
import getpass
import gzip
import hashlib
import io
import os
import re
import socket
import sys
import tarfile
import tempfile
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import msgspec

from analysis import TableError, report
from train.record import record
from train.record.record import RecordError, RunRecord

NAME = "bundle"
MANIFEST = "MANIFEST"
SCRUBBED = "scrubbed: names of hosts and users, paths and addresses are not those of the run"
_README = """\
Run records, the figures drawn from them, and a page that shows them beside the published numbers.

report.html   open it in any browser; it needs no network
figures/      PDF, PNG, SVG, and captions.md
results/      one record.json a run; its sha256 field is checked when it is read
MANIFEST      SHA-256 of every file: sha256sum --check MANIFEST

With the kit's code, the numbers can be made again from the records:
python -m analysis compare --results results
python -m analysis audit results
python -m analysis report --results results --figures redrawn --out redrawn/report.html
"""

# Names that are nobody's: of no host and of no person.
_COMMON = {"localhost", "127.0.0.1", "root", "user", ""}
# Values whose name says that they hold a host, a person or an address, however it is written.
_PRIVATE = re.compile(r"USER|LOGIN|ACCOUNT|ENTITY|HOST(NAME|S|FILE)?$|NODELIST|NODENAME|ADDR|URI|CLUSTER_NAME", re.I)
_USER_VARIABLE = re.compile(r"(^|_)(USER|LOGNAME)$")
_HOME = re.compile(r"/(?:home|Users|users|u)/([\w.-]+)")
# An absolute path. One within a word, as in and/or, or of a URL, is none.
_PATH = re.compile(r"(?<![\w/:.~-])(?:~[\w.-]*)?(?:/[^\s/:,;'\"=()]+)+/?")
_ADDRESS = re.compile(r"(?<![\w.])(?!127\.)\d{1,3}(?:\.\d{1,3}){3}(?![\w.])")


def hosts(run: RunRecord) -> set[str]:
    """The names of the hosts that a record names in its own fields, with and without their domains."""
    named = {rank.host for rank in run.ranks} | {
        host.host for host in (run.environment.hosts if run.environment else [])
    }
    if run.failure and run.failure.host:
        named.add(run.failure.host)
    return {name for full in named for name in (full, full.partition(".")[0])} - _COMMON


def users(run: RunRecord) -> set[str]:
    """The names of users that a record tells: in its variables, and as owners of home folders in its paths."""
    variables = run.environment.variables if run.environment else {}
    named = {value for name, value in variables.items() if _USER_VARIABLE.search(name)}
    return (named | set(_HOME.findall(record.dumps(run).decode()))) - _COMMON


def _file_alone(path: re.Match[str]) -> str:
    """A path as the name of its file; one without a suffix may be a folder, and that anybody's name."""
    name = path[0].rpartition("/")[2]
    return f"/.../{name}" if "." in name.strip(".") else "/..."


def scrubber(host_names: Iterable[str], user_names: Iterable[str]) -> Callable[[RunRecord], RunRecord]:
    """A function from a record to the same one without these names, without folders of paths and without addresses.

    A host keeps one name over all records, so that ranks of one host are still seen to be on one. Numbers stay as they
    are. `notes` says that it was done.
    """
    short = sorted({name.partition(".")[0] for name in host_names})
    given = {name: f"host{short.index(name.partition('.')[0])}" for name in host_names} | dict.fromkeys(
        user_names, "user"
    )
    names = sorted(given, key=len, reverse=True)
    word = re.compile(rf"(?<![A-Za-z0-9_-])(?:{'|'.join(map(re.escape, names))})(?![A-Za-z0-9_-])") if names else None

    def text(value: str) -> str:
        value = _ADDRESS.sub("address", _PATH.sub(_file_alone, value))
        return word.sub(lambda found: given[found[0]], value) if word else value

    def clean(value: Any, key: str = "") -> Any:
        if isinstance(value, dict):
            return {name: clean(inner, name) for name, inner in value.items()}
        if isinstance(value, list):
            return [clean(inner, key) for inner in value]
        if not isinstance(value, str):
            return value
        if value in given:
            return given[value]
        private = _PRIVATE.search(key) and not value.isdigit() and value not in _COMMON
        return "scrubbed" if private else text(value)

    def scrub(run: RunRecord) -> RunRecord:
        done = msgspec.convert(clean(asdict(run)), RunRecord)
        done.notes.append(SCRUBBED)
        return done

    return scrub


def _records(results: Path, scrub: bool) -> tuple[dict[Path, bytes], list[str]]:
    """The record files below `results` by their place in it, and those that cannot be trusted, which stay out."""
    found: dict[Path, RunRecord] = {}
    left_out = []
    for path in record.find(results):
        try:
            found[path.relative_to(results)] = record.load(path)
        except RecordError as error:
            left_out.append(str(error))
    if not found:
        raise TableError(f"{results}: no run record there to pack" + "".join(f"\n{line}" for line in left_out))
    if not scrub:
        return {place: (results / place).read_bytes() for place in found}, left_out
    here = socket.gethostname()
    named = {here, here.partition(".")[0]} - _COMMON
    people = {getpass.getuser()} - _COMMON
    for run in found.values():
        named |= hosts(run)
        people |= users(run)
    cleaned = scrubber(named, people)
    return {place: record.dumps(cleaned(run)) for place, run in found.items()}, left_out


def manifest(folder: Path) -> str:
    """One line a file below `folder`, sorted, as `sha256sum` writes and checks it."""
    files = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.relative_to(folder)}\n" for path in files)


def archive(folder: Path) -> bytes:
    """The folder as a compressed tar: sorted, without owners and times, so that the same files give the same bytes."""
    packed = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=packed, mtime=0) as compressed:
        with tarfile.open(fileobj=compressed, mode="w", format=tarfile.PAX_FORMAT) as tar:
            for path in sorted(path for path in folder.rglob("*") if path.is_file()):
                entry = tarfile.TarInfo(f"{NAME}/{path.relative_to(folder)}")
                entry.size, entry.mode = path.stat().st_size, 0o644
                with path.open("rb") as file:
                    tar.addfile(entry, file)
    return packed.getvalue()


def pack(results: Path, scrub: bool) -> tuple[bytes, int, list[str]]:
    """The archive, the number of its records, and what was left out. Raises TableError where there is no record.

    Figures and page are made from the records as they are packed.
    """
    packed, left_out = _records(results, scrub)
    with tempfile.TemporaryDirectory() as stage:
        folder = Path(stage)
        for place, text in packed.items():
            record.write_atomically(folder / "results" / place, text)
        with contextlib.chdir(folder):  # so that figures and page name a record by its place in the archive
            report.make(Path("results"), Path("figures"), Path("report.html"))
        (folder / "README.txt").write_text(_README)
        (folder / MANIFEST).write_text(manifest(folder))
        return archive(folder), len(packed), left_out


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of one's own records")
    parser.add_argument("--scrub", action="store_true", help="without names of hosts and users, paths and addresses")
    parser.add_argument("--out", type=Path, default=Path("figures/bundle.tar.gz"), help="default: %(default)s")


def run(options: argparse.Namespace) -> int:
    """Write the archive and say what is in it; the exit status."""
    packed, records, left_out = pack(options.results.absolute(), options.scrub)
    for line in left_out:
        print(f"left out: {line}", file=sys.stderr)
    options.out.parent.mkdir(parents=True, exist_ok=True)
    partial = options.out.with_name(f"{options.out.name}.part")
    partial.write_bytes(packed)
    os.replace(partial, options.out)
    scrubbed = ", scrubbed" if options.scrub else ""
    print(f"{options.out}: {records} records{scrubbed}, figures, page and {MANIFEST}; {len(packed) / 1e6:.1f} MB")
    return 0
