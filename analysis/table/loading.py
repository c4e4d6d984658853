"""The tidy tables: what the reports printed, and what local records hold."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pandas as pd

from analysis import TableError
from analysis.table import controls, schema
from analysis.table.checks import copies
from analysis.table.identity import identify
from analysis.table.runs import Measured, Notice, Run, Value, contradicted, read
from train.record import record

PUBLISHED = Path(__file__).parents[1] / "published"

# So many records are read faster by one process than several are started.
_FEW = 400


def published(folder: Path = PUBLISHED) -> pd.DataFrame:
    """Every number that the five reports state, as the tidy table of `analysis.table.schema`.

    Raises TableError naming the file, the line and what is wrong with it.
    """
    parts = [schema.read_csv(path, schema.COLUMNS) for path in sorted(folder.glob("*.csv"))]
    if not parts:
        raise TableError(f"{folder}: no CSV file in it")
    return schema.check(pd.concat(parts, ignore_index=True), str(folder))


@dataclass(frozen=True)
class Local:
    """Local records: the tidy table of what they measured, and the records that are not in it, or not in full."""

    table: pd.DataFrame
    notices: list[Notice] = field(default_factory=list)

    @property
    def left_out(self) -> list[Notice]:
        """Files that are no trustworthy record."""
        return [notice for notice in self.notices if not notice.failed]

    @property
    def failed(self) -> list[Notice]:
        """Runs that failed."""
        return [notice for notice in self.notices if notice.failed]


def local(*places: Path, every_generation: bool = False) -> Local:
    """The complete records in `places` (results folders, record files) as a tidy table, each run's newest generation.

    `every_generation`: older ones too, as a history needs them.

    Beside the columns of the published numbers it has those of `schema.LOCAL_COLUMNS`. A launch in rounds has the rows
    of each of its arms. A file that cannot be read, contradicts itself (`analysis.table.checks`) or is a copy of
    another run is left out and named with the reason, a failed run too; the rounds that all ranks had finished before a
    launch failed are in the table. A folder that does not exist has no records.
    """
    paths = sorted({path for place in places for path in ([place] if place.is_file() else record.find(place))})
    read_all = _without_copies(_read_all(paths))
    runs = [one for one in read_all if isinstance(one, Run)]
    notices = [one if isinstance(one, Notice) else one.notice for one in read_all]
    points = [point for run in (runs if every_generation else _newest(runs)) for point in run.points]
    return Local(controls.attach(_tidy(points)), [notice for notice in notices if notice])


def _newest(runs: list[Run]) -> list[Run]:
    """Of the generations of a run the newest."""
    newest: dict[tuple[str, str, str, int, int], Run] = {}
    for run in runs:
        if run.key not in newest or newest[run.key].generation < run.generation:
            newest[run.key] = run
    return [*newest.values()]


def _without_copies(read_all: list[Run | Notice]) -> list[Run | Notice]:
    """What was read, with a notice in place of each run that is a copy of another."""
    found = copies.find([one.trace for one in read_all if isinstance(one, Run)])
    return [
        contradicted(one.trace.path, (found[one.trace.path],))
        if isinstance(one, Run) and one.trace.path in found
        else one
        for one in read_all
    ]


def _read_all(paths: list[Path]) -> list[Run | Notice]:
    workers = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if len(paths) < _FEW or workers == 1:
        return [read(path) for path in paths]
    with ProcessPoolExecutor(workers) as pool:
        return list(pool.map(read, paths, chunksize=64))


def _tidy(points: list[Measured]) -> pd.DataFrame:
    """One row a value, built a column at a time: 10,000 records make a third of a million rows."""
    columns = schema.COLUMNS + schema.LOCAL_COLUMNS
    kinds = {"text": "str", "integer": "Int64", "number": "float64", "flag": "boolean"}
    types = {column.name: kinds[column.kind] for column in columns}
    identities = identify([point.facts for point in points])
    cells = [point.columns | identity for point, identity in zip(points, identities, strict=True)]
    wide = pd.DataFrame(cells, columns=[column.name for column in columns])
    text = [column.name for column in columns if column.kind == "text"]
    wide[text] = wide[text].astype(object).fillna("")
    wide = wide.astype(types)  # here, where a point is one row, and not once for each of its values
    table = wide.take([i for i, point in enumerate(points) for _ in point.values]).reset_index(drop=True)
    values = list(zip(*(v for point in points for v in point.values), strict=True)) or [()] * len(Value._fields)
    for name, column in zip(Value._fields, values, strict=True):
        table[name] = pd.Series(column, dtype=types[name])
    unit = {name: known.unit for name in set(values[0]) if (known := schema.quantity(name))}
    table["unit"] = table["quantity"].map(unit).astype("str")
    return table
