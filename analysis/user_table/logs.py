"""The logs of training runs as tables: one row a run. `train.record.logs` knows them."""

from __future__ import annotations

from analysis.user_table.files import Grid, Text
from train.record import logs


def grids(file: Text) -> list[Grid]:
    """Return the runs in a log that is known, as a table with the names of the kit; none of another text."""
    kind, rows = logs.rows(file.text, file.where)
    if not rows:
        return []
    names = [*dict.fromkeys(name for row in rows for name in row if name != "line")]
    cells = [tuple(names), *(tuple(str(row.get(name, "")) for name in names) for row in rows)]
    return [Grid(file.where, kind, tuple(cells), (0, *(row["line"] for row in rows)), decimal=".")]
