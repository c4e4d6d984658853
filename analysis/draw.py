"""`draw`: the figures as PDF, PNG and SVG, and their captions. The same input gives the same bytes."""

import argparse
import difflib
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import matplotlib as mpl
import pandas as pd

from analysis import TableError, figures, plots, tables
from analysis.figures import Entry, Points

# What would otherwise name the day and the version of Matplotlib in each file.
_METADATA = {
    "pdf": {"CreationDate": None, "Producer": None, "Creator": None},
    "svg": {"Date": None},
    "png": {"Software": None},
}


def arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    parser.add_argument("ids", nargs="*", metavar="ID", help="which figures (see `list`); all where none is given")
    parser.add_argument("--results", type=Path, default=Path("results"), help="folder of one's own records")
    parser.add_argument("--out", type=Path, default=Path("figures"), help="folder to draw into")


def chosen(ids: list[str], known: dict[str, Entry]) -> list[Entry]:
    """The figures called `ids`, all where there is none. Raises TableError naming an id that is not known."""
    for id in ids:
        if id not in known:
            like = difflib.get_close_matches(id, known, n=3) or sorted(known)
            raise TableError(f"no figure is called '{id}'; did you mean {', '.join(like)}? `list` shows all")
    return [known[id] for id in ids or known]


def caption(entry: Entry, points: Points) -> str:
    """The caption in Markdown, with where one's own points come from."""
    text = [f"## {entry.id}", f"**{entry.shows[0].upper() + entry.shows[1:]}.** {entry.caption}"]
    if not points.own.empty:
        runs = points.own.drop_duplicates("record")
        days = sorted({started[:10] for started in runs["started_at"]})
        span = days[0] if len(days) == 1 else f"{days[0]} to {days[-1]}"
        text.append(
            f"Own points: {len(runs)} run{'s' * (len(runs) > 1)} on {'; '.join(runs['machine'].unique())}, {span}."
        )
    return "\n\n".join(text) + "\n"


def save(id: str, points: Points, folder: Path) -> None:
    """Draw the figure `id` from `points` into `folder`, in three formats."""
    with mpl.rc_context(fname=plots.STYLE):
        drawn = figures.load()[id].function(points)
        drawn.draw_without_rendering()  # lays it out, once for the three formats
        drawn.set_layout_engine("none")
        for suffix, metadata in _METADATA.items():
            drawn.savefig(folder / f"{id}.{suffix}", metadata=metadata)


def draw(entries: list[Entry], published: pd.DataFrame, own: pd.DataFrame, folder: Path) -> tuple[list[str], list[str]]:
    """Draw the figures; the ids drawn, and those skipped: nothing to draw. captions.md has all that can be."""
    folder.mkdir(parents=True, exist_ok=True)
    points = {entry.id: entry.points(published, own) for entry in figures.load().values()}
    empty = [id for id, of in points.items() if id.startswith("own-") and of.own.empty]
    todo = [entry.id for entry in entries if entry.id not in empty]
    for id in todo[:1]:  # here, so that the processes that are forked after it have fonts and libraries loaded
        save(id, points[id], folder)
    with ProcessPoolExecutor() as pool:
        for done in [pool.submit(save, id, points[id], folder) for id in todo[1:]]:
            done.result()
    captions = [caption(entry, points[entry.id]) for entry in figures.load().values() if entry.id not in empty]
    (folder / "captions.md").write_text("\n".join(["# Captions\n", *captions]))
    return todo, [entry.id for entry in entries if entry.id in empty]


def run(arguments: argparse.Namespace) -> int:
    """Draw what was asked for, say what was left out; the exit status."""
    entries = chosen(arguments.ids, figures.load())
    own = tables.own(arguments.results)
    for line in own.left_out:
        print(f"left out: {line}", file=sys.stderr)
    if own.failed:
        print(f"{len(own.failed)} failed runs are not drawn", file=sys.stderr)
    drawn, empty = draw(entries, tables.published(), own.table, arguments.out)
    if empty:
        print(f"figures of own experiments without records in {arguments.results}: {len(empty)}; `list` names them")
    print(f"{len(drawn)} figures in {arguments.out}, captions in {arguments.out / 'captions.md'}")
    return 0
