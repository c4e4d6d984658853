"""The files of one point, on the disk or in an archive."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import msgspec

from train.record import ledger, protocol, record
from train.record.record import RECORD_NAME, RecordError, RunRecord

ASSIGNMENT = protocol.assignment_path(Path()).name
DAMAGED = (OSError, ValueError, TypeError, LookupError, AttributeError)  # raised on reading a damaged file


@dataclass(frozen=True)
class Point:
    """The folder of a point, with the names of all files in it; each is read when it is needed."""

    folder: str
    names: frozenset[str]  # relative to the folder
    content: Callable[[str], bytes]  # of the file at a path

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises OSError."""
        return self.content(f"{self.folder}/{name}")

    @property
    def experiment(self) -> str:
        """Return the folder of its experiment."""
        return self.folder.rsplit("/", 2)[0]

    @property
    def name(self) -> str:
        """Return its name in a plan: point, and hash of the configuration."""
        return "/".join(self.folder.split("/")[-2:])

    def records(self) -> Iterator[tuple[str, RunRecord]]:
        """Yield the records that can be read, each with the name of its folder."""
        for name in sorted(self.names):
            run, _, file = name.partition("/")
            if file == RECORD_NAME:
                try:
                    yield run, record.loads(self.read(name), name)
                except (RecordError, OSError):
                    continue  # the table names it

    def assignment(self, run: str) -> protocol.Assignment | None:
        """Return the assignment of a run; None if it is missing or damaged."""
        try:
            return msgspec.json.decode(self.read(f"{run}/{ASSIGNMENT}"), type=protocol.Assignment)
        except (*DAMAGED, RecursionError):
            return None


def on_disk(records: Iterable[str]) -> list[Point]:
    """Return the points with these records, and all others of their experiments that have a ledger."""
    paths = (Path(path).absolute() for path in records)
    folders = {path.parents[1] for path in paths if len(path.parents) > 4}
    folders |= {path.parent for home in {f.parents[1] for f in folders} for path in home.glob(f"*/*/{ledger.NAME}")}
    return [
        Point(
            str(folder),
            frozenset(path.relative_to(folder).as_posix() for path in folder.rglob("*")),
            lambda path: Path(path).read_bytes(),
        )
        for folder in sorted(folders)
    ]


def in_archive(files: Mapping[str, bytes]) -> list[Point]:
    """Return the points of an archive. files: by paths that end in point, hash, run and file, or in a ledger."""
    names: dict[str, set[str]] = defaultdict(set)
    for path in files:
        steps = path.split("/")
        depth = 1 if steps[-1] == ledger.NAME else 2
        names["/".join(steps[:-depth])].add("/".join(steps[-depth:]))
    return [Point(folder, frozenset(inner), files.__getitem__) for folder, inner in sorted(names.items())]
