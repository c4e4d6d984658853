"""A scaling study in a CSV file of one's own as a table that the rules read: tidy, or one row a point."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pandas as pd

from analysis import TableError, metrics
from analysis.explain import tidy
from analysis.table import schema
from analysis.thresholds import limit

_QUANTITIES = ("wall_s", "images_per_s_per_rank", "images_per_s", "steps_per_rank")


def read(path: Path) -> tuple[pd.DataFrame, list[str]]:
    """The tidy table of the study in a file, and what was left out of it.

    Either a tidy table (`analysis.table.schema`), or the plain one that `explain` reads, one row a point: rows of one
    configuration are repeats. Raises TableError naming the file and what cannot be used.
    """
    try:
        with path.open(errors="replace") as file:
            headers = [cell.strip().strip('"') for cell in re.split(r"[,;\t|]", file.readline())]
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}") from error
    if "quantity" in headers:
        return schema.check(schema.read_csv(path, schema.COLUMNS), str(path)), []
    points, notes = tidy.read(path)
    numbered = _numbered(points)
    rows = [row for point in numbered for row in _rows(point, path.name)]
    if all(point["repeat"] is None for point in numbered):
        margin = limit("single_runs")
        notes.append(f"each point was measured once: without repeats, differences of up to {margin:.0%} may be noise")
    return schema.check(pd.DataFrame(rows, columns=[column.name for column in schema.COLUMNS], dtype=object)), notes


def _numbered(points: pd.DataFrame) -> list[dict[str, Any]]:
    """The points with the number of their repeat, None where their configuration is there once; and their line.

    Several works on one number of ranks are repeats of one speed, each with its own steps.
    """
    same = points.groupby(["model", "ranks", "batch_per_rank"], dropna=False)["wall_s"]
    repeats, counts = same.cumcount(), same.transform("size")
    found = []
    for place, point in enumerate(points.to_dict("records")):
        repeat = int(repeats.iloc[place]) if counts.iloc[place] > 1 else None
        found.append(
            {
                **{str(name): value for name, value in point.items()},
                "repeat": repeat,
                "line": point.get("line", place + 2),
            }
        )
    return found


def _rows(point: dict[str, Any], name: str) -> Iterator[dict[str, Any]]:
    """The numbers of one point."""
    ranks, batch = int(point["ranks"]), float(point["batch_per_rank"])
    speed = point["images_per_s_per_rank"]
    values = {**point, "images_per_s": metrics.whole_job(speed, float(ranks))}
    for quantity in _QUANTITIES:
        known = schema.quantity(quantity)
        if known and not pd.isna(values[quantity]):
            yield dict.fromkeys((column.name for column in schema.COLUMNS), "") | {
                "source": "published", "place": f"{name}, line {point['line']}", "model": point["model"],
                "nodes": None, "ranks_per_node": None, "threads_per_rank": None, "ranks": ranks,
                "batch_per_rank": int(batch) if batch.is_integer() else None,
                "global_batch": int(batch * ranks) if (batch * ranks).is_integer() else None,
                "repeat": point["repeat"], "quantity": quantity, "value": float(values[quantity]),
                "unit": known.unit, "kind": "measured",
            }  # fmt: skip
