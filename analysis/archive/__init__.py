"""The contents of an archive for a reviewer: packed files, their description for programs, their digests.

Files are records, and what launches wrote beside them; scrubbed: without names.
"""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from analysis import TableError
from analysis.archive.manifest import GZIP, digest
from analysis.archive.scrub import Scrubber, authors_names, reveals
from common import bounded_files as bounded
from record import ledger, protocol, run_files
from record import schema as record


@dataclass(frozen=True)
class Collected:
    """Files by their path in the folder of results, and a line for each that is left out, with the reason."""

    records: dict[Path, bytes]
    attachments: dict[Path, bytes]  # and other files of launches; the records and ledgers have their SHA-256
    left_out: list[str]
    authors_names: list[str] = field(default_factory=list)  # of what was measured, which scrubbed records still hold


def collect(results: Path, scrubbed: bool) -> Collected:
    """Collect the trustworthy records below `results`; scrubbed: without names of hosts and users, paths and addresses.

    An attachment of a record is packed unmodified or not at all, as its digest is in the record. Raises TableError
    without any record.
    """
    runs: dict[Path, record.RunRecord] = {}
    texts: dict[Path, bytes] = {}
    left_out = []
    for path in record.find(results):
        try:
            text, name = record.record_bytes(path), path.relative_to(results)
            runs[name], texts[name] = record.loads(text, str(path)), text
        except record.RecordError as error:
            left_out.append(str(error))
    if not runs:
        raise TableError(f"{results}: no run record in it to pack" + "".join(f"\n{line}" for line in left_out))
    if not scrubbed:
        attachments, problems = _attachments(results, runs, None)
        return Collected(texts, _launch_files(results, runs, problems) | attachments, left_out + problems)
    scrubber = Scrubber.from_records(runs.values())
    cleaned = {scrubber.path(path): scrubber.record(run) for path, run in runs.items()}
    attachments, problems = _attachments(results, runs, scrubber.names)
    return Collected(
        {path: record.dumps(run) for path, run in cleaned.items()},
        {scrubber.path(path): content for path, content in attachments.items()},
        left_out + problems,
        authors_names(cleaned.values()),
    )


def _attachments(
    results: Path, runs: Mapping[Path, record.RunRecord], names: set[str] | None
) -> tuple[dict[Path, bytes], list[str]]:
    """Return the files that records name, and lines for those left out. names: allowed in no file; None: no check."""
    contents: dict[Path, bytes] = {}
    problems = []
    named = [(path, name, stated) for path, run in runs.items() for name, stated in run.attachments.items()]
    for record_path, name, stated in named:
        if Path(name).name != name:  # attachments are in the folder of the record
            continue
        path = results / record_path.parent / name
        try:
            content = bounded.read(path)
            text = bounded.unpacked(content) if names is not None and content.startswith(GZIP) else content
        except OSError as error:
            problems.append(f"{path}: {error.strerror}; the record beside it names it")
            continue
        if digest(content) != stated:
            problems.append(f"{path}: not the file of the record beside it: it was changed, or copied from another run")
        elif names is not None and reveals(text.decode(errors="replace"), names):
            problems.append(f"{path}: it has the name of a host or a user, a home folder or an address")
        else:
            contents[record_path.parent / name] = content
    return contents, problems


def _launch_files(results: Path, runs: Iterable[Path], problems: list[str]) -> dict[Path, bytes]:
    """Return the files by which records are verified: of all points of their experiments that have a ledger.

    Add a line to `problems` for each that cannot be read.
    """
    homes = {results / path.parents[1] for path in runs}
    homes |= {
        path.parent for name in {path.parts[0] for path in runs} for path in results.glob(f"{name}/*/*/{ledger.NAME}")
    }
    contents = {}
    folders = {run for home in homes for generations in run_files.runs(home).values() for run in generations}
    folders |= {results / path.parent for path in runs}
    paths = [*(home / ledger.NAME for home in homes), *map(protocol.assignment_path, folders)]
    paths += [path for folder in folders for path in protocol.part_paths(folder)]
    for path in sorted(path for path in paths if os.path.lexists(path)):
        try:
            contents[path.relative_to(results)] = bounded.read(path, links=False)
        except OSError as error:
            problems.append(f"{path}: {error.strerror}")
    return contents
