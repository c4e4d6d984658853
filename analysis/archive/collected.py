"""The files that an archive packs: records of a folder of results, and the files that launches left beside them."""

import contextlib
import getpass
import gzip
import socket
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from analysis import TableError, scrub
from analysis.archive.manifest import digest
from train.record import record
from train.record.record import RecordError, RunRecord


@dataclass(frozen=True)
class Collected:
    """Files by their place in the folder of results, and a line for each that stays out, with the reason."""

    records: dict[Path, bytes]
    attachments: dict[Path, bytes]  # the records have their SHA-256
    left_out: list[str]
    remains: list[str] = field(default_factory=list)  # what scrubbed records still hold that may name somebody


def collect(results: Path, scrubbed: bool) -> Collected:
    """Collect the trustworthy records below `results`; scrubbed: without names of hosts and users, paths and addresses.

    A file beside a record is packed as it is, or not at all: its digest is in the record. Raises TableError without any
    record.
    """
    runs: dict[Path, RunRecord] = {}
    left_out = []
    for path in record.find(results):
        try:
            runs[path.relative_to(results)] = record.load(path)
        except RecordError as error:
            left_out.append(str(error))
    if not runs:
        raise TableError(f"{results}: no run record in it to pack" + "".join(f"\n{line}" for line in left_out))
    if not scrubbed:
        attachments, problems = _attachments(results, runs, None)
        records = {path: (results / path).read_bytes() for path in runs}
        return Collected(records, attachments, left_out + problems)
    scrubber = scrub.Scrubber(*_names(runs))
    cleaned = {scrubber.path(path): scrubber.record(run) for path, run in runs.items()}
    attachments, problems = _attachments(results, runs, scrubber.names)
    return Collected(
        {path: record.dumps(run) for path, run in cleaned.items()},
        {scrubber.path(path): content for path, content in attachments.items()},
        left_out + problems,
        scrub.remains(cleaned.values()),
    )


def _names(runs: Mapping[Path, RunRecord]) -> tuple[set[str], set[str]]:
    """Return the names of hosts and people in records, and those of this host and user."""
    here = socket.gethostname()
    hosts = {here, here.partition(".")[0]} - scrub.COMMON
    people: set[str] = set()
    with contextlib.suppress(KeyError, OSError):  # a user without a name, as in a container with another number
        people = {getpass.getuser()} - scrub.COMMON
    for run in runs.values():
        hosts |= scrub.hosts(run)
        people |= scrub.users(run)
    return hosts, people


def _attachments(
    results: Path, runs: Mapping[Path, RunRecord], names: set[str] | None
) -> tuple[dict[Path, bytes], list[str]]:
    """Return the files that records name, and lines for those left out. names: no file may contain them; None: any."""
    contents: dict[Path, bytes] = {}
    problems = []
    for record_path, name, stated in _named(runs):
        path = results / record_path.parent / name
        try:
            content = path.read_bytes()
        except OSError as error:
            problems.append(f"{path}: {error.strerror}; the record beside it names it")
            continue
        if digest(content) != stated:
            problems.append(f"{path}: not the file of the record beside it: it was changed, or copied from another run")
        elif names is not None and scrub.reveals(_text(content), names):
            problems.append(f"{path}: it has the name of a host or a user, a home folder or an address")
        else:
            contents[record_path.parent / name] = content
    return contents, problems


def _named(runs: Mapping[Path, RunRecord]) -> Iterator[tuple[Path, str, str]]:
    """Yield the path of each record that names files beside it, the name of each file, and its SHA-256."""
    for path, run in runs.items():
        for name, stated in run.attachments.items():
            if Path(name).name == name:  # beside it, and nowhere else
                yield path, name, stated


def _text(content: bytes) -> str:
    with contextlib.suppress(OSError, EOFError, zlib.error):  # it is not compressed
        content = gzip.decompress(content)
    return content.decode(errors="replace")
