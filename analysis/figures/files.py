"""Figures and captions as files: PDF, PNG and SVG. The same input gives the same bytes."""

from __future__ import annotations

import base64
import gc
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from analysis.figures import fonts, plots
from analysis.figures.entry import Entry, Points
from analysis.study import Study
from analysis.text import csv_text

# What would otherwise name the day and the version of Matplotlib in each file.
_METADATA = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}
FORMATS = tuple(_METADATA)
# A tenth larger than the default, in a quarter of the time.
_HOW: Mapping[str, dict] = {"png": {"pil_kwargs": {"compress_level": 2}}}


def caption(entry: Entry, points: Points) -> str:
    """The caption in Markdown, with the origin of the local points."""
    text = [f"## {entry.id}", f"**{entry.shows[0].upper() + entry.shows[1:]}.** {entry.caption}"]
    if not points.local.empty:
        runs = points.local.drop_duplicates("record")
        days = sorted({started[:10] for started in runs["started_at"]})
        span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        number = f"{len(runs)} run{'s' * (len(runs) > 1)}"
        text.append(f"Local points: {number} on {'; '.join(runs['machine'].unique())}, {span}.")
    return "\n\n".join(text) + "\n"


def save(entry: Entry, points: Points, folder: Path, formats: Sequence[str] = FORMATS) -> None:
    """Draw a figure from `points` into `folder`, in these formats."""
    with mpl.rc_context(fname=plots.STYLE), fonts.quick_to_embed():
        drawn = entry.draw(points)
        if layout := drawn.get_layout_engine():
            layout.execute(drawn)  # once for all formats; with an engine each would be laid out and drawn twice
            drawn.set_layout_engine(None)
        for suffix in formats:
            drawn.savefig(folder / f"{entry.id}.{suffix}", metadata=_METADATA[suffix], **_HOW.get(suffix, {}))


@contextmanager
def in_background(
    entries: Sequence[Entry], study: Study, folder: Path, formats: Sequence[str] = FORMATS
) -> Iterator[None]:
    """Draw the figures into `folder`, in parallel, while the block runs; all are there when the block is left."""
    folder.mkdir(parents=True, exist_ok=True)
    todo = [(entry, entry.points(study)) for entry in entries]
    for entry, points in todo[:1]:  # here, so that the processes that are forked have fonts and libraries loaded
        save(entry, points, folder, formats)
    with ProcessPoolExecutor(initializer=gc.disable) as pool:  # figures are full of circles, and the processes short
        pending = [pool.submit(save, entry, points, folder, formats) for entry, points in todo[1:]]
        yield
        for done in pending:
            done.result()


def draw(entries: Sequence[Entry], study: Study, folder: Path) -> list[str]:
    """Draw the figures into `folder`, in parallel; returns their ids."""
    with in_background(entries, study, folder):
        pass
    return [entry.id for entry in entries]


def write_captions(figures: Mapping[str, Entry], study: Study, folder: Path) -> None:
    """Write the captions of all figures that can be drawn to captions.md."""
    captions: Iterable[str] = (caption(entry, entry.points(study)) for entry in figures.values())
    (folder / "captions.md").write_text("\n".join(["# Captions\n", *captions]))


def data_text(points: Points) -> str:
    """The rows as CSV with a header, without the columns that are empty in all of them; "" without a row.

    `source` tells published rows from local ones; `analysis/table/schema.py` describes the columns.
    """
    rows = pd.concat([of for of in (points.published, points.local) if len(of)] or [points.published])
    if rows.empty:
        return ""
    empty = [name for name in rows.columns if (rows[name].isna() | rows[name].astype(str).eq("")).all()]
    return csv_text(rows.drop(columns=empty))


def data_link(points: Points) -> str:
    """The CSV as a data URI, which a page can hold; "" without a row."""
    content = data_text(points)
    return f"data:text/csv;base64,{base64.b64encode(content.encode()).decode()}" if content else ""


def write_data(entries: Iterable[Entry], study: Study, folder: Path) -> None:
    """Write the data of each figure that has any beside it, as ID.csv."""
    for entry in entries:
        if content := data_text(entry.points(study)):
            (folder / f"{entry.id}.csv").write_text(content)
