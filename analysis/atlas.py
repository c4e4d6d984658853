"""The atlas: published scaling curves (analysis/published/atlas), and where a user's curve is among them."""

import functools
import math
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from analysis import PUBLISHED, labels, metrics, speedups
from analysis.table import controls, tidy_columns
from common.terminal import counted

FOLDER = PUBLISHED / "atlas"
ACCELERATORS = FOLDER / "accelerators.csv"
LEAST = 5  # curves: among fewer there is no place
Curve = dict[str, Any]  # of a user: family, scaling, over, base, size; device and batch_per_rank of its smallest point
_SCALING = {"batch_per_rank": "weak", "global_batch": "strong"}


@functools.cache
def numbers() -> pd.DataFrame:
    """Return every number of the atlas in the columns of the tidy table, with `curve`, `family` and `year`.

    curve: what all points of a curve have in common. family: of programs, "" if models.csv does not have it. year: in
    which the accelerator was first sold, NaN if accelerators.csv does not have it.
    """
    files = [*sorted(FOLDER.glob("*.csv")), *sorted(PUBLISHED.glob("003_primary_source*.csv"))]
    tables = {file.stem: tidy_columns.read_csv(file) for file in files if file.stem not in ("accelerators", "models")}
    named = {name.replace("003_primary_source", "tensorflow.org"): table for name, table in tables.items()}
    rows = pd.concat([table.assign(report=name) for name, table in named.items()], ignore_index=True)
    point = rows["place"].str.replace(r"primary source: |, \d+ GPUs$", "", regex=True) + " " + rows["note"]
    run = rows["run"].mask(rows["report"].str.startswith("tensorflow"), point)
    curve = rows["report"] + ": " + run + ", " + rows["model"]
    year = rows["gpu"].map(lambda gpu: _entries("accelerators").get(_part(gpu), math.nan))
    return rows.assign(curve=curve, family=rows["model"].map(_entries("models")).fillna(""), year=year)


@functools.cache
def _entries(name: str) -> dict[str, str | int]:
    """Return the second column of a list by the first: of accelerators by a part of their names, of models."""
    return dict(pd.read_csv(FOLDER / f"{name}.csv", usecols=[0, 1]).itertuples(index=False, name=None))


def _part(gpu: str) -> str:
    """Return the first part in accelerators.csv that is in the name of an accelerator; "" without one."""
    return next((part for part in _entries("accelerators") if part in gpu), "")


def points() -> pd.DataFrame:
    """Return the measured rates of the atlas."""
    rows = numbers()
    return rows[rows["kind"].eq("measured") & rows["quantity"].isin(["rate", "images_per_s"]) & rows["value"].gt(0)]


def pairs(points: pd.DataFrame) -> pd.DataFrame:
    """Return each two sizes of each curve: over nodes with as many ranks a node, and over the ranks of one node.

    Columns beside those of the smaller size: over (nodes, ranks), base and size, ratio of both, efficiency at the
    larger size, scaling: weak (batch per rank kept), strong (global batch or problem kept), or "" (neither).
    """
    over_ranks = points[points["nodes"].eq(1)].assign(over="ranks", size=points["ranks"], ranks_per_node=-1)
    sizes = pd.concat([points.assign(over="nodes", size=points["nodes"]), over_ranks]).dropna(subset="size")
    sizes["ranks_per_node"] = sizes["ranks_per_node"].fillna(-1)
    key = ["curve", "over", "ranks_per_node"]
    sizes = sizes.drop_duplicates([*key, "size"]).astype({"size": float, "value": float})
    both = sizes.merge(sizes, on=key, suffixes=("", "_2")).query("size < size_2")
    conditions = [
        (both["experiment"].eq(f"{kind}_scaling") | both[batch].eq(both[f"{batch}_2"]).fillna(False)).to_numpy(bool)
        for batch, kind in _SCALING.items()
    ]
    speedup = metrics.speedup(both["value_2"], both["value"])
    return both.assign(
        base=both["size"],
        size=both["size_2"],
        ratio=both["size_2"] / both["size"],
        efficiency=metrics.efficiency(speedup, both["size_2"], both["size"]),
        scaling=np.select(conditions, [*_SCALING.values()], ""),
    )


def from_smallest(over: str) -> pd.DataFrame:
    """Return the pairs of each curve over nodes or ranks that begin at its smallest size, by ratio."""
    rows = pairs(points()).query("over == @over")
    smallest = rows.groupby(["curve", "ranks_per_node"])["base"].transform("min")
    return rows[rows["base"].eq(smallest)].sort_values(["curve", "ratio"])


def alike(pairs: pd.DataFrame, mine: Curve) -> pd.DataFrame:
    """Return the pairs like a user's, with the base nearest to that one in each curve, by the year of accelerators.

    Alike are the kind of program, weak or strong scaling, nodes or the ranks of one node, and the ratio of sizes.
    """
    wanted = {**{name: mine[name] for name in ("family", "scaling", "over")}, "ratio": mine["size"] / mine["base"]}
    rows = pairs[(pairs[[*wanted]] == [*wanted.values()]).all(axis=1)]
    nearest = rows.assign(distance=abs(np.log(rows["base"] / mine["base"]))).sort_values(["distance", "base"])
    return nearest.drop_duplicates("curve").sort_values("year")


def published(mine: Curve, pairs: pd.DataFrame) -> str:
    """Return the efficiencies of the published curves that are alike; "" of fewer than five.

    How far the curves are comparable comes first: what they have in common, then what differs or is not known.
    """
    rows, over = alike(pairs, mine), str(mine["over"]).removesuffix("s")
    if len(rows) < LEAST:
        return ""
    batch, values, bases = rows["batch_per_rank"], rows["efficiency"], [*dict.fromkeys(sorted(rows["base"]))]
    gpus = [*dict.fromkeys(map(_part, rows.loc[rows["year"].notna(), "gpu"]))]
    ends = [*gpus[:1], *gpus[1:][-1:]]
    smaller, larger = (batch.gt(mine["batch_per_rank"]).all(), batch.lt(mine["batch_per_rank"]).all())
    compared = "yours is smaller than all" if smaller else "yours is larger than all" if larger else "yours is within"
    at = f"{bases[0]:g} to {counted(bases[-1], over)}" if len(bases) > 1 else counted(bases[0], over)
    ratio = f"{mine['size'] / mine['base']:g} times the {over}s"
    return (
        f"Alike: {mine['family']} models, {mine['scaling']} scaling, {ratio}. "
        f"Not alike, or not known: accelerator{' (yours are CPUs)' * (mine['device'] == 'cpu')}, batch per rank "
        f"({compared if batch.notna().all() else 'not known of all'}), links, precision. {len(rows)} published curves: "
        f"{values.min():.2f} to {values.max():.2f}, median {values.median():.2f} "
        f"({', '.join(filter(None, [' to '.join(ends), at]))} at the base)"
    )


def local_curves(local: pd.DataFrame) -> Iterator[tuple[str, Curve, list[speedups.ScalingPoint]]]:
    """Yield the name, the description for `published`, and the curve over nodes or ranks of each local series.

    Points that are not valid as scaling results are left out, and so are models of no family.
    """
    runs = speedups.rates(local[local["kind"].eq("measured")])
    for (_, model, _), rows in runs.groupby(["experiment", "model", "series"], sort=False):
        first, valid = rows.iloc[0], rows[~controls.invalid(rows)]
        over, family = ("nodes" if rows["nodes"].nunique() > 1 else "ranks"), _entries("models").get(str(model))
        if family and first["kept"] in _SCALING and first["axis"] in ("nodes", "ranks") and valid[over].nunique() > 1:
            curve, mine = speedups.curve(valid, over), {name: first[name] for name in ("device", "batch_per_rank")}
            mine |= {"family": family, "scaling": _SCALING[first["kept"]], "over": over}
            mine |= {"base": curve[0].size, "size": curve[-1].size}
            yield labels.name(str(model)), mine, curve


def placements(local: pd.DataFrame) -> list[str]:
    """Return where local curves are among published ones, each at its largest size that has a place in the atlas.

    Curves beside the same published ones share a line.
    """
    lines: dict[str, list[str]] = {}
    published_pairs = pairs(points())
    for name, mine, curve in local_curves(local):
        for point in curve[:0:-1]:
            if others := published(mine | {"size": point.size}, published_pairs):
                at = counted(point.size, str(mine["over"]).removesuffix("s"))
                lines.setdefault(others, []).append(f"{name} on {at}: {point.efficiency.text('.2f')}")
                break
    return [f"{'; '.join(owns)}. {others}" for others, owns in lines.items()]
