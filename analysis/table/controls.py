"""Whether emulated nodes disturbed each other: the throughput of a node among others and alone, without allreduce."""

import math
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import pandas as pd

from analysis import metrics

# What a run and its control share. In strong scaling the batch of a rank shrinks: each has its own node alone.
_SAME = ["experiment", "model", "image_size", "precision", "machine", "measure", "batch_per_rank", "ranks_per_node"]
_POINT = [*_SAME, "global_batch", "nodes"]


def deviations(local: pd.DataFrame) -> pd.DataFrame:
    """Return one row per kind of control run: its columns shared with points, `nodes`, `global_batch`, `control_off`.

    control_off: the change of images/s per rank from one node to so many, a fraction. In rounds it is the median of the
    changes within a round, else the change of the means over repeats; NaN without a control on one node.
    """
    runs = local[local["kind"].eq("control") & local["quantity"].eq("images_per_s_per_rank")]
    in_rounds = _paired(runs[runs["round"].notna()])
    rows = pd.concat([in_rounds, _unpaired(runs[runs["round"].isna()])]) if len(in_rounds) else _unpaired(runs)
    return rows.drop_duplicates([*_SAME, "nodes"])


def _paired(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the deviations of controls that ran in rounds."""
    same = [*_SAME, "record", "round"]
    alone = runs.loc[runs["nodes"].eq(1), [*same, "value"]].rename(columns={"value": "alone"})
    both = runs.merge(alone, on=same, how="left")
    both["control_off"] = metrics.change_fraction(both["alone"], both["value"])
    return both.groupby(_POINT, dropna=False)["control_off"].median().reset_index()


def _unpaired(runs: pd.DataFrame) -> pd.DataFrame:
    """Return the deviations of controls that ran in separate launches."""
    mean = runs.groupby(_POINT, dropna=False)["value"].mean().rename("among").reset_index()
    alone = mean[mean["nodes"].eq(1)].drop(columns=["nodes", "global_batch"]).rename(columns={"among": "alone"})
    both = mean.merge(alone, on=_SAME, how="left")
    off = metrics.change_fraction(both["alone"], both["among"])
    return both.assign(control_off=off).drop(columns=["among", "alone"])


def attach(local: pd.DataFrame) -> pd.DataFrame:
    """Return the local table with `control_off` and `control_nodes` of emulated nodes with a control.

    The control is on as many nodes, or on the next larger number that has one: fewer nodes disturb each other less. One
    node is not disturbed: 0.
    """
    emulated = local[local["cpus_per_node"].notna()]
    if not emulated["kind"].eq("control").any():
        return local
    controls = _records(deviations(emulated).dropna(subset="control_off"))
    points = emulated[_POINT].drop_duplicates()
    nearest = [_nearest_control(point, controls) for point in _records(points)]
    points["control_off"] = [off for off, _ in nearest]
    points["control_nodes"] = pd.array([nodes for _, nodes in nearest], dtype="Int64")
    attached = local.drop(columns=["control_off", "control_nodes"])
    return attached.merge(points, on=_POINT, how="left")[local.columns]


def _records(frame: pd.DataFrame) -> list[dict[Hashable, Any]]:
    """Return the rows, with None for blank cells."""
    return frame.astype(object).where(frame.notna(), None).to_dict("records")


def _nearest_control(
    point: Mapping[Hashable, Any], controls: Sequence[Mapping[Hashable, Any]]
) -> tuple[float, int | None]:
    """Return the deviation of the control of a point, and its nodes; NaN and None without a control.

    A curve keeps the batch of a rank, or the global batch: then the control on more nodes has a smaller batch a rank.
    """
    setting = [name for name in _SAME if name != "batch_per_rank"]
    curve = [
        one
        for one in controls
        if all(one[name] == point[name] for name in setting)
        and any(one[name] == point[name] for name in ("batch_per_rank", "global_batch"))
        and one["nodes"] >= point["nodes"]
    ]
    if not curve:
        return math.nan, None
    nearest = min(curve, key=lambda one: (one["nodes"], one["batch_per_rank"] != point["batch_per_rank"]))
    return (0.0, 1) if point["nodes"] == 1 else (nearest["control_off"], nearest["nodes"])


def lost(local: pd.DataFrame) -> pd.Series:
    """Return which rows are not valid as scaling results: shared cores, or emulated nodes that disturb each other."""
    disturbed = local["control_off"].abs() > local["flat_within_fraction"]
    return local["cores_shared"].fillna(False).astype(bool) | disturbed


def why_lost(local: pd.DataFrame) -> pd.Series:
    """Return why each row is not valid as a scaling result; "" if it is valid.

    Unlike in `lost`, emulated nodes without a control are not valid: whether they disturbed each other is not known.
    """
    off, emulated = local["control_off"], local["cpus_per_node"].notna()
    columns = (off, local["control_nodes"], local["flat_within_fraction"])
    texts = [
        f"without allreduce {nodes:.0f} nodes {100 * deviation:+.0f} % off one alone (bound {100 * bound:.0f} %)"
        for deviation, nodes, bound in zip(*(column.fillna(0.0) for column in columns), strict=True)
    ]
    reasons = pd.Series(texts, local.index, dtype=object).where(off.abs() > local["flat_within_fraction"], "")
    reasons = reasons.mask(emulated & off.isna(), "emulated without a control")
    return reasons.mask(local["cores_shared"].fillna(False).astype(bool), "ranks shared cores")


def numbers(nodes: pd.Series) -> str:
    """Return each number of nodes once, ascending: "2, 8 nodes"."""
    return f"{', '.join(str(number) for number in sorted(nodes.unique()))} nodes"


def control_note(local: pd.DataFrame, name: Callable[[str], str]) -> str:
    """Return the result of the control of these rows, for a figure; "" without emulated nodes. name: of a model."""
    rows = local[local["cpus_per_node"].notna()]
    if rows.empty:
        return ""
    off, bound = rows["control_off"], rows["flat_within_fraction"].max()
    bad = rows[off.abs() > rows["flat_within_fraction"]]
    if not bad.empty:
        worst = max(bad.to_dict("records"), key=lambda row: abs(row["control_off"]))
        models = ", ".join(map(name, bad["model"].unique()))
        whose = f" of {models}" if bad["model"].nunique() < rows["model"].nunique() else ""
        return (
            f"this machine cannot emulate {numbers(bad['nodes'])}{whose}: without allreduce the throughput of "
            f"{worst['control_nodes']} is {100 * worst['control_off']:+.0f} % off that of one alone "
            f"(bound: {100 * bound:.0f} %)"
        )
    if off.isna().any():
        return "emulated without a complete control: it is not known whether nodes disturbed each other"
    return f"control: without allreduce, nodes within {100 * off.abs().max():.0f} % of one alone"
