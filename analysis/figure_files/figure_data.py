"""The data of a figure as CSV: each published and local row that it draws, in the columns of the tidy table."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from analysis import outside_text
from analysis.figures import Entry, Points
from analysis.study import Study


def text(points: Points) -> str:
    """The rows as CSV with a header, without the columns that are empty in all of them; "" without a row.

    `source` tells published rows from local ones; `analysis/table/schema.py` describes the columns.
    """
    rows = pd.concat([of for of in (points.published, points.local) if len(of)] or [points.published])
    if rows.empty:
        return ""
    empty = [name for name in rows.columns if (rows[name].isna() | rows[name].astype(str).eq("")).all()]
    return outside_text.csv(rows.drop(columns=empty))


def link(points: Points) -> str:
    """The CSV as a data URI, which a page can hold; "" without a row."""
    content = text(points)
    return f"data:text/csv;base64,{base64.b64encode(content.encode()).decode()}" if content else ""


def write(entries: Iterable[Entry], study: Study, folder: Path) -> None:
    """Write the data of each figure that has any beside it, as ID.csv."""
    for entry in entries:
        if content := text(entry.points(study)):
            (folder / f"{entry.id}.csv").write_text(content)
