"""Figures and captions as files: PDF, PNG and SVG. The same input gives the same bytes."""

import base64
import functools
import gzip
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import matplotlib as mpl
import pandas as pd
from matplotlib.figure import Figure

from analysis.compare.sessions import days
from analysis.documents import csv_text
from analysis.figures import FigureData, FigureEntry, plots
from analysis.study import Study
from common import affinity
from common.terminal import counted
from record import run_files as files
from record.this_kit import ROOT

FORMATS = ("pdf", "svg", "png")
_CODE = (ROOT / "analysis", ROOT / "record", ROOT / "common")
_DRAWS = (".py", ".toml", ".csv", ".mplstyle")
# A tenth larger than the default, in a quarter of the time.
_SAVE_OPTIONS: Mapping[str, dict] = {"png": {"pil_kwargs": {"compress_level": 2}}}


@functools.cache
def code_digest() -> str:
    """Return the first digits of one SHA-256 over what figures are made with: the code, and its tables."""
    paths = sorted(path for folder in _CODE for path in folder.rglob("*") if path.suffix in _DRAWS)
    return files.source_digest({str(path.relative_to(ROOT)): files.digest(path) for path in paths})[: files.DIGITS]


def _metadata() -> dict[str, dict[str, str | None]]:
    """Return the metadata of each format, without the day and the version of Matplotlib. A PNG says what drew it."""
    return {
        "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
        "svg": {"Date": None},
        "png": {"Software": None, "Source": f"code {code_digest()}"},
    }


def caption(entry: FigureEntry, points: FigureData) -> str:
    """Return the caption in Markdown, with machine and days of the local points."""
    text = [f"## {entry.id}", f"**{entry.shows[0].upper() + entry.shows[1:]}.** {entry.caption(points.local)}"]
    if not points.local.empty:
        runs = points.local.drop_duplicates("record")
        machines, when = "; ".join(runs["machine"].unique()), days(runs["started_at"].min(), runs["started_at"].max())
        text.append(f"Local points: {counted(len(runs), 'run')} on {machines}, {when}.")
    return "\n\n".join(text) + "\n"


def save(
    id: str, draw: Callable[[], Figure], folder: Path, formats: Sequence[str] = FORMATS, small: bool = False
) -> None:
    """Draw a figure and save it in `folder` as `id`, in these formats. small: as of `plots.shorten`."""
    with mpl.rc_context(plots.SMALL if small else {}, plots.STYLE):
        drawn = plots.shorten(draw()) if small else draw()
        if layout := drawn.get_layout_engine():
            layout.execute(drawn)  # once for all formats; with an engine each would be laid out and drawn twice
            drawn.set_layout_engine(None)
        folder.mkdir(parents=True, exist_ok=True)
        for suffix in formats:
            drawn.savefig(folder / f"{id}.{suffix}", metadata=_metadata()[suffix], **_SAVE_OPTIONS.get(suffix, {}))


Report = Callable[[str], None]


@contextmanager
def in_background(
    entries: Sequence[FigureEntry], study: Study, folder: Path, report: Report, formats: Sequence[str] = FORMATS
) -> Iterator[None]:
    """Draw the figures into `folder`, in parallel, while the block runs; at its end all are drawn.

    report: called with the id of each figure when it is drawn.
    """
    folder.mkdir(parents=True, exist_ok=True)
    todo = [(entry.id, functools.partial(entry.draw, entry.points(study)), folder, formats) for entry in entries]
    for figure in todo[:1]:  # in this process, so that forked ones have fonts and libraries loaded
        save(*figure)
        report(figure[0])
    with ProcessPoolExecutor(len(affinity.usable_cores())) as pool:  # its default on Python 3.11, 3.12 ignores a cpuset
        pending = [pool.submit(save, *figure) for figure in todo[1:]]
        for job, (id, *_) in zip(pending, todo[1:], strict=True):
            job.add_done_callback(functools.partial(_report, report, id))
        yield
        for job in pending:
            job.result()


def _report(report: Report, id: str, job: Future) -> None:
    if not job.exception():
        report(id)


def draw(entries: Sequence[FigureEntry], study: Study, folder: Path, report: Report = lambda id: None) -> None:
    """Draw the figures into `folder`, in parallel. report: as for `in_background`."""
    with in_background(entries, study, folder, report):
        pass


def write_captions(figures: Mapping[str, FigureEntry], study: Study, folder: Path) -> None:
    """Write the captions of all figures that can be drawn to captions.md."""
    captions: Iterable[str] = (caption(entry, entry.points(study)) for entry in figures.values())
    (folder / "captions.md").write_text("\n".join(["# Captions\n", *captions]))


def data_text(points: FigureData) -> str:
    """Return the rows as CSV with a header, without the columns that are empty in all of them; "" without a row.

    `source` distinguishes published and local rows; `analysis/table/tidy_columns.toml` describes the columns.
    """
    rows = pd.concat([table for table in (points.published, points.local) if len(table)] or [points.published])
    if rows.empty:
        return ""
    empty = [name for name in rows.columns if (rows[name].isna() | rows[name].astype(str).eq("")).all()]
    return csv_text(rows.drop(columns=empty))


def data_link(points: FigureData) -> str:
    """Return the CSV, compressed by gzip, as a data URI, which a page can hold; "" without a row."""
    content = gzip.compress(data_text(points).encode(), mtime=0)
    return "" if points.empty else f"data:application/gzip;base64,{base64.b64encode(content).decode()}"


def write_data(entries: Iterable[FigureEntry], study: Study, folder: Path) -> None:
    """Write the data of each figure that has any, as ID.csv in the folder of the figures."""
    for entry in entries:
        if content := data_text(entry.points(study)):
            (folder / f"{entry.id}.csv").write_text(content)
