"""Loading of the tidy tables: published numbers and local records."""

import itertools
import os
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from analysis import PUBLISHED, TableError
from analysis.table import controls, tidy_columns
from analysis.table.record_rows import Measured, Notice, RunKey, TabulatedRun, tabulate
from analysis.table.swept_axis import identify
from common import affinity
from common.terminal import counted
from record import clock
from record import schema as record
from record.schema import RecordError, RunRecord

# Up to so many bytes of records, one process reads them faster than several start.
FEW_BYTES = 5e6
_CHUNKS = 8  # for each of several processes, so that none waits long for the others
_LARGEST_CHUNK = 64  # records, whose contents come back at once
_DECODED = 200  # records that stay in memory: one of a large launch in rounds takes megabytes


def published(folder: Path = PUBLISHED) -> pd.DataFrame:
    """Return every number of the five reports, as the tidy table of `analysis.table.tidy_columns`.

    Raises TableError naming the file, the line and the fault.
    """
    parts = [tidy_columns.read_csv(path) for path in sorted(folder.glob("*.csv"))]
    if not parts:
        raise TableError(f"{folder}: no CSV file in it")
    return tidy_columns.check(pd.concat(parts, ignore_index=True), str(folder))


class RecordsByPath(Mapping[str, RunRecord]):
    """All records that can be read, by path, also those that are not in the table; a record is read when asked for."""

    def __init__(self, paths: Sequence[str] = (), decoded: Mapping[str, RunRecord] | None = None) -> None:
        """Take over the paths of files that were records, and those that are decoded already."""
        self._paths = dict.fromkeys(paths)
        self._decoded = dict(itertools.islice((decoded or {}).items(), _DECODED))

    def __getitem__(self, path: str) -> RunRecord:
        """Return the record at `path`. Raises KeyError if none was there."""
        if path not in self._paths:
            raise KeyError(path)
        if path not in self._decoded:
            if len(self._decoded) >= _DECODED:
                del self._decoded[next(iter(self._decoded))]
            self._decoded[path] = record.load(path)
        return self._decoded[path]

    def __iter__(self) -> Iterator[str]:
        """Yield the paths in order."""
        return iter(self._paths)

    def __len__(self) -> int:
        """Return the number of records."""
        return len(self._paths)


@dataclass(frozen=True)
class LocalTable:
    """Local records: the tidy table of their measurements, notices of omissions from it, and the records."""

    table: pd.DataFrame
    notices: list[Notice] = field(default_factory=list)
    records: RecordsByPath = field(default_factory=RecordsByPath)


def local(*sources: Path, every_generation: bool = False, all_rounds: bool = False) -> LocalTable:
    """Load the complete records in `sources` (results folders, record files) as a tidy table.

    Only the newest generations count, unless `every_generation`, as a history needs them; and only rounds that others
    did not disturb (`record.disturbance`), unless `all_rounds`. Launches of a user's program are left out together if
    the clock does not confirm their numbers (`record.clock`).

    The table also has the columns of `tidy_columns.LOCAL_COLUMNS`. A launch in rounds has the rows of each of its arms.
    A file is left out and named with the reason if it cannot be read, or its numbers cannot be right
    (`record_checks`). So is a failed run, but the rounds that all its ranks had finished are in the table. A folder
    that does not exist has no records.
    """
    unique = {path for source in sources for path in ([source] if source.is_file() else record.find(source))}
    paths = sorted(unique, key=lambda path: path.parts)  # the same order as of paths, for less work
    decoded: dict[str, RunRecord] = {}
    read = _read_all([*map(str, paths)], all_rounds, decoded)
    contents, is_record = zip(*read, strict=True) if paths else ((), ())
    runs = [content for content in contents if isinstance(content, TabulatedRun)]
    notices = [content if isinstance(content, Notice) else content.notice for content in contents]
    newest = _newest(runs)
    doubts = clock.doubts(run.launch for run in newest if run.launch)
    experiments = {run.launch.series: run.key[0] for run in newest if run.launch}
    notices += [
        Notice(False, experiments[series], "\n".join(lines), unconfirmed=True) for series, lines in doubts.items()
    ]
    used = [r for r in (runs if every_generation else newest) if not (r.launch and r.launch.series in doubts)]
    points = [point for run in used for point in run.points]
    records = RecordsByPath([*itertools.compress(map(str, paths), is_record)], decoded)
    return LocalTable(controls.attach(_tidy(points)), _settled([n for n in notices if n], runs), records)


def _settled(notices: list[Notice], runs: list[TabulatedRun]) -> list[Notice]:
    """Return the notices, one a folder of an experiment for all failures of runs that were complete later."""
    complete = {run.key[:4]: run.generation for run in _newest(runs) if not run.notice}
    settled = [n for n in notices if n.key and not n.rounds and n.key[4] < complete.get(n.key[:4], -1)]
    folders = Counter(str(Path(*Path(notice.path).parts[:-4])) for notice in settled)
    lines = [
        Notice(True, folder, f"{counted(number, 'launch')} failed whose runs are complete since", settled=number)
        for folder, number in folders.items()
    ]
    return [notice for notice in notices if notice not in settled] + lines


def _newest(runs: list[TabulatedRun]) -> list[TabulatedRun]:
    newest: dict[RunKey, TabulatedRun] = {}
    for run in runs:
        newest[run.key] = max(newest.get(run.key, run), run, key=lambda candidate: candidate.generation)
    return [*newest.values()]


_File = tuple[TabulatedRun | Notice, bool]  # its content for the table, and whether it is a record


def _read(path: str, all_rounds: bool, decoded: dict[str, RunRecord] | None = None) -> _File:
    """Return the content of a file for the table, and whether it is a record, which is added to `decoded`."""
    try:
        run = record.load(path)
        if decoded is not None:
            decoded[path] = run
        return tabulate(run, path, all_rounds), True
    except RecordError as error:
        return Notice(False, name := record.path_text(path), str(error).removeprefix(f"{name}: ")), False


def _read_all(paths: list[str], all_rounds: bool, decoded: dict[str, RunRecord]) -> list[_File]:
    """Return what `_read` does of each file; records are added to `decoded` if one process reads them."""
    workers = len(affinity.usable_cores())
    if workers == 1 or not any(size > FEW_BYTES for size in itertools.accumulate(map(_size_bytes, paths))):
        return [_read(path, all_rounds, decoded) for path in paths]
    with ProcessPoolExecutor(workers) as pool:
        chunk = max(1, min(len(paths) // (workers * _CHUNKS), _LARGEST_CHUNK))
        return list(pool.map(_read, paths, itertools.repeat(all_rounds), chunksize=chunk))


def _size_bytes(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # reading it raises the reason
        return 0


def _tidy(points: list[Measured]) -> pd.DataFrame:
    """Return one row per value, built by column: 10,000 records make 200,000 rows."""
    shared = _shared_columns(points)
    counts = [len(point.values["quantity"]) for point in points]
    point_of_row = np.repeat(np.arange(len(points)), np.array(counts, int))
    varying = {name for point in points for name in point.values}
    columns: dict[str, Any] = {}
    for column in tidy_columns.COLUMNS + tidy_columns.LOCAL_COLUMNS:
        if column.name in varying:
            cells = (
                point.values.get(column.name, itertools.repeat(None, count))
                for point, count in zip(points, counts, strict=True)
            )
            columns[column.name] = _typed(column, [*itertools.chain.from_iterable(cells)])
        else:  # made once for a point, not for each of its values
            columns[column.name] = _typed(column, shared[column.name]).array.take(point_of_row)
    unit = {
        name: definition.unit for name in columns["quantity"].unique() if (definition := tidy_columns.quantity(name))
    }
    usual = pd.Series(columns["quantity"].map(unit)).astype("str")
    own = pd.Series(columns["unit"], usual.index)  # of the rate of a user's program
    columns["unit"] = usual.mask(usual.eq("images/s") & own.ne(""), own)
    return pd.DataFrame(columns, copy=False)


def _shared_columns(points: list[Measured]) -> dict[str, Sequence[Any]]:
    """Return the columns whose cells all values of a point share, one cell per point."""
    names = tidy_columns.LOCAL_NAMES
    cells = [*zip(*(point.cells for point in points), strict=True)] or [()] * len(names)
    columns: dict[str, Sequence[Any]] = dict(zip(names, cells, strict=True))
    identities = identify([point.facts for point in points])
    for name in identities[0] if identities else ():
        columns[name] = [identity[name] for identity in identities]
    return columns


def _typed(column: tidy_columns.TidyColumn, cells: Sequence[Any]) -> pd.Series:
    """Return the cells as a column of their kind; None is an empty cell."""
    if column.kind == "text":
        return pd.Series(["" if cell is None else cell for cell in cells], dtype=tidy_columns.DTYPES[column.kind])
    # Pandas would read a list with None cell by cell.
    return pd.Series(cells if column.kind == "flag" else np.array(cells, float), dtype=tidy_columns.DTYPES[column.kind])
