"""The files of one point, on the disk or in an archive."""

import glob
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from record import ledger, protocol
from record import schema as record
from record.schema import RECORD_NAME, RUN_FOLDER, RecordError, RunRecord

ASSIGNMENT = protocol.assignment_path(Path()).name
# Raised on reading a damaged file, or one that is made to break the reader.
DAMAGED = (*(RecordError, ValueError, TypeError, LookupError, AttributeError, ArithmeticError),)
_IN_RESULTS = re.compile(rf"/[0-9a-f]{{8}}/{RUN_FOLDER.pattern}/record\.json$")


@dataclass(frozen=True)
class PointFolder:
    """The folder of a point, with the names of all files in it; each is read when it is needed."""

    folder: str
    names: frozenset[str]  # relative to the folder
    content: Callable[[str], bytes]  # of the file at a path
    decoded: Mapping[str, RunRecord] = field(default_factory=dict)  # records that were read before, by path

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises RecordError if it cannot be read."""
        path = f"{self.folder}/{name}"
        if name not in self.names:
            raise RecordError(f"{path}: missing")
        return self.content(path)

    @property
    def experiment(self) -> str:
        """Return the folder of its experiment."""
        return self.folder.rsplit("/", 2)[0]

    @property
    def is_in_results(self) -> bool:
        """Return whether it is a folder of results, named by its hash; else a record was copied elsewhere."""
        return bool(re.search(r"(^|/)[0-9a-f]{8}$", self.folder))

    @property
    def name(self) -> str:
        """Return its name in a plan: point, and hash of the configuration."""
        return "/".join(self.folder.split("/")[-2:])

    @property
    def runs(self) -> list[str]:
        """Return the names of the folders with a record, sorted."""
        folders = (name.partition("/") for name in self.names)
        return sorted(run for run, _, file in folders if file == RECORD_NAME)

    def record(self, run: str) -> RunRecord:
        """Return the record in a folder. Raises RecordError if it cannot be read."""
        path = f"{self.folder}/{run}/{RECORD_NAME}"
        return self.decoded[path] if path in self.decoded else record.loads(self.read(f"{run}/{RECORD_NAME}"), path)

    def assignment(self, run: str) -> protocol.Assignment | None:
        """Return the assignment of a run; None if it is missing or damaged."""
        try:
            return protocol.decoded_assignment(self.read(f"{run}/{ASSIGNMENT}"))
        except (RecordError, ValueError):
            return None


def on_disk(records: Iterable[str], decoded: Mapping[str, RunRecord] | None = None) -> list[PointFolder]:
    """Return the points with these records, and all others of their experiments that have a ledger.

    Of a record that is not in a folder of results, only the folder that it is in. decoded: records that were read.
    """
    folders: dict[Path, str] = {}  # of points, with a pattern of the names of their runs
    for path in (Path(path).absolute() for path in records):
        if _IN_RESULTS.search(str(path)):
            folders[path.parents[1]] = "*"
        elif len(path.parents) > 1:
            folders.setdefault(path.parents[1], glob.escape(path.parent.name))
    for experiment in {folder.parents[1] for folder, runs in folders.items() if runs == "*"}:
        folders |= {path.parent: "*" for path in experiment.glob(f"*/*/{ledger.NAME}")}
    read, known = record.record_bytes, {} if decoded is None else decoded  # no pipe, no device, no file without end
    points = []
    for folder, runs in sorted(folders.items()):
        paths = (path for path in (folder / ledger.NAME, *folder.glob(f"{runs}/*")) if path.is_file())
        names = frozenset(path.relative_to(folder).as_posix() for path in paths)
        points.append(PointFolder(_path_as_given(folder), names, read, known))
    return points


def _path_as_given(folder: Path) -> str:
    """Return the path of a point, relative to the working folder if it is in a folder of results below that."""
    here = Path.cwd()
    relative = folder.relative_to(here) if folder.is_relative_to(here) else folder
    return str(relative if len(relative.parts) > 2 else folder)


def in_archive(files: Mapping[str, bytes]) -> list[PointFolder]:
    """Return the points of an archive. files: by paths that end in point, hash, run and file, or in a ledger."""
    names: dict[str, set[str]] = defaultdict(set)
    for path in files:
        steps = path.split("/")
        depth = 1 if steps[-1] == ledger.NAME else 2
        names["/".join(steps[:-depth])].add("/".join(steps[-depth:]))
    return [PointFolder(folder, frozenset(inner), files.__getitem__) for folder, inner in sorted(names.items())]
