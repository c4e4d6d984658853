"""Whether emulated nodes disturb each other, by their controls: the same nodes without allreduce.

Nodes that exchange nothing should be as fast together as one alone. `control_off` is their deviation from that, as a
fraction of the throughput of a rank.
"""

from collections.abc import Callable

import pandas as pd

from analysis import metrics

# The columns that a run and its control share. In strong scaling the batch of a rank shrinks with the nodes, and each
# batch has a control on one node.
_SETTING = ["experiment", "model", "image_size", "precision", "machine", "measure", "ranks_per_node"]
_SAME = [*_SETTING, "batch_per_rank"]
_POINT = [*_SAME, "global_batch", "nodes"]


def emulated(local: pd.DataFrame) -> pd.DataFrame:
    """Return the rows of nodes that CPU quotas emulate."""
    return local[local["cpu_quota_per_node"].notna()]


def attach(local: pd.DataFrame) -> pd.DataFrame:
    """Return the local table with `control_off` and `control_nodes` of emulated nodes that have a control.

    The control is on as many nodes, or on the next larger number that has one: fewer nodes disturb each other less. One
    node is not disturbed: 0.
    """
    rows = emulated(local)
    if not rows["kind"].eq("control").any():
        return local
    controls = deviations(rows).dropna(subset="control_off")
    nearest = _nearest_controls(rows[_POINT].drop_duplicates(), controls)
    return local.drop(columns=["control_off", "control_nodes"]).merge(nearest, on=_POINT, how="left")[local.columns]


def deviations(local: pd.DataFrame) -> pd.DataFrame:
    """Return one row for each setting and number of nodes of the controls, with its `control_off`.

    In rounds it is the median of the changes within a round, else the change of the means over repeats. It is NaN
    without a control on one node.
    """
    runs = local[local["kind"].eq("control") & local["quantity"].eq("images_per_s_per_rank")]
    in_rounds = _over_alone(runs[runs["round"].notna()], [*_SAME, "record", "round"])
    means = runs[runs["round"].isna()].groupby(_POINT, dropna=False)["value"].mean().reset_index()
    launches = _over_alone(means, _SAME)[[*_POINT, "control_off"]]
    if len(in_rounds):
        medians = in_rounds.groupby(_POINT, dropna=False)["control_off"].median().reset_index()
        launches = pd.concat([medians, launches])
    return launches.drop_duplicates([*_SAME, "nodes"])


def _over_alone(runs: pd.DataFrame, key: list[str]) -> pd.DataFrame:
    """Return the runs with their change from the run on one node alone that has the same key."""
    alone = runs.loc[runs["nodes"].eq(1), [*key, "value"]].rename(columns={"value": "alone"})
    paired = runs.merge(alone, on=key, how="left")
    return paired.assign(control_off=metrics.change_fraction(paired["alone"], paired["value"]))


def _nearest_controls(points: pd.DataFrame, controls: pd.DataFrame) -> pd.DataFrame:
    """Return the points that have a control, with its deviation and nodes.

    A curve keeps the batch of a rank, or the global batch: then the control on more nodes has a smaller batch a rank.
    """
    pairs = points.merge(controls, on=_SETTING, suffixes=("", "_of_control"))
    same = {name: pairs[name].eq(pairs[f"{name}_of_control"]) for name in ("batch_per_rank", "global_batch")}
    pairs = pairs.assign(control_nodes=pairs["nodes_of_control"], other_batch=~same["batch_per_rank"])
    pairs = pairs[(same["batch_per_rank"] | same["global_batch"]) & pairs["control_nodes"].ge(pairs["nodes"])]
    nearest = pairs.sort_values(["control_nodes", "other_batch"]).drop_duplicates(_POINT)
    nearest.loc[nearest["nodes"].eq(1), ["control_off", "control_nodes"]] = 0.0, 1
    return nearest[[*_POINT, "control_off", "control_nodes"]]


def invalid(local: pd.DataFrame) -> pd.Series:
    """Return which rows are not valid as scaling results: shared cores, or emulated nodes that disturb each other."""
    return _shared(local) | _disturbed(local)


def why_invalid(local: pd.DataFrame) -> pd.Series:
    """Return why each row is not valid as a scaling result; "" if it is.

    Emulated nodes without a control are not valid either: whether they disturbed each other is not known.
    """
    columns = ("control_nodes", "control_off", "flat_within_fraction")
    texts = [
        f"without allreduce {nodes:.0f} nodes {100 * off:+.0f} % off one alone (bound {100 * bound:.0f} %)"
        for nodes, off, bound in zip(*(local[name].fillna(0.0) for name in columns), strict=True)
    ]
    reasons = pd.Series(texts, local.index, dtype=object).where(_disturbed(local), "")
    reasons = reasons.mask(
        local["cpu_quota_per_node"].notna() & local["control_off"].isna(), "emulated without a control"
    )
    return reasons.mask(_shared(local), "ranks shared cores")


def _shared(local: pd.DataFrame) -> pd.Series:
    return local["cores_shared"].fillna(False).astype(bool)


def _disturbed(local: pd.DataFrame) -> pd.Series:
    return local["control_off"].abs() > local["flat_within_fraction"]


def control_note(local: pd.DataFrame, name: Callable[[str], str]) -> str:
    """Return the result of the control of these rows as a note; "" without emulated nodes. name: of a model."""
    rows = emulated(local)
    if rows.empty:
        return ""
    disturbed = rows[_disturbed(rows)]
    if len(disturbed):
        models = ", ".join(map(name, disturbed["model"].unique()))
        whose = f" of {models}" if disturbed["model"].nunique() < rows["model"].nunique() else ""
        worst = disturbed.iloc[disturbed["control_off"].abs().argmax()]
        return (
            f"this machine cannot emulate {node_counts(disturbed['nodes'])}{whose}: without allreduce the throughput "
            f"of {worst['control_nodes']} is {100 * worst['control_off']:+.0f} % off that of one alone "
            f"(bound: {100 * disturbed['flat_within_fraction'].max():.0f} %)"
        )
    if rows["control_off"].isna().any():
        return "emulated without a complete control: it is not known whether nodes disturbed each other"
    return f"control: without allreduce, nodes within {100 * rows['control_off'].abs().max():.0f} % of one alone"


def node_counts(nodes: pd.Series) -> str:
    """Return each number of nodes once, ascending: "2, 8 nodes"."""
    return f"{', '.join(map(str, sorted(nodes.unique())))} nodes"
