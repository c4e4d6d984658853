"""Whether emulated nodes disturbed each other: the throughput of a node among others and alone, without allreduce."""

import pandas as pd

from analysis import metrics

# What a run and its control share. In strong scaling the batch of a rank shrinks: each has its own node alone.
_SAME = ["experiment", "model", "image_size", "precision", "machine", "measure", "batch_per_rank", "ranks_per_node"]


def deviations(local: pd.DataFrame) -> pd.DataFrame:
    """One row a kind of control run: what it shares with its points, `nodes`, and `control_off`, a fraction.

    control_off: the change of images/s per rank from one node to so many. In rounds the median of the changes within a
    round, else the change of the means over repeats; NaN where no control on one node exists.
    """
    runs = local[local["kind"].eq("control") & local["quantity"].eq("images_per_s_per_rank")]
    in_rounds = _paired(runs[runs["round"].notna()])
    found = pd.concat([in_rounds, _unpaired(runs[runs["round"].isna()])]) if len(in_rounds) else _unpaired(runs)
    return found.drop_duplicates([*_SAME, "nodes"])


def _paired(runs: pd.DataFrame) -> pd.DataFrame:
    """The deviations of controls that ran in rounds."""
    same = [*_SAME, "record", "round"]
    alone = runs.loc[runs["nodes"].eq(1), [*same, "value"]].rename(columns={"value": "alone"})
    both = runs.merge(alone, on=same, how="left")
    both["control_off"] = metrics.change_fraction(both["alone"], both["value"])
    return both.groupby([*_SAME, "nodes"], dropna=False)["control_off"].median().reset_index()


def _unpaired(runs: pd.DataFrame) -> pd.DataFrame:
    """The deviations of controls that ran in launches of their own."""
    mean = runs.groupby([*_SAME, "nodes"], dropna=False)["value"].mean().rename("among").reset_index()
    alone = mean[mean["nodes"].eq(1)].drop(columns="nodes").rename(columns={"among": "alone"})
    both = mean.merge(alone, on=_SAME, how="left")
    off = metrics.change_fraction(both["alone"], both["among"])
    return both.assign(control_off=off).drop(columns=["among", "alone"])


def attach(local: pd.DataFrame) -> pd.DataFrame:
    """Returns the local table with the column `control_off` filled in for emulated nodes that have a control."""
    if not local["kind"].eq("control").any():
        return local
    found = local.drop(columns="control_off").merge(deviations(local), on=[*_SAME, "nodes"], how="left")
    found["control_off"] = found["control_off"].where(found["cpus_per_node"].notna())
    return found[local.columns]


def lost(local: pd.DataFrame) -> pd.Series:
    """Which rows are no measurement of scaling: ranks shared cores, or emulated nodes disturbed each other."""
    disturbed = local["control_off"].abs() > local["flat_within_fraction"]
    return local["cores_shared"].fillna(False).astype(bool) | disturbed


def why_lost(local: pd.DataFrame) -> pd.Series:
    """Why each row is no measurement of scaling, in words; "" where it is one.

    So are, unlike in `lost`, emulated nodes without a control: whether they disturbed each other is not known.
    """
    off, emulated = local["control_off"], local["cpus_per_node"].notna()
    said = [
        f"without allreduce {100 * found:+.0f} % off one node alone (bound {100 * bound:.0f} %)"
        for found, bound in zip(off.fillna(0.0), local["flat_within_fraction"].fillna(0.0), strict=True)
    ]
    found = pd.Series(said, local.index, dtype=object).where(off.abs() > local["flat_within_fraction"], "")
    found = found.mask(emulated & off.isna(), "emulated without a control")
    return found.mask(local["cores_shared"].fillna(False).astype(bool), "ranks shared cores")


def numbers(nodes: pd.Series) -> str:
    """Each number of nodes once, in ascending order: "2, 8 nodes"."""
    return f"{', '.join(str(number) for number in sorted(nodes.unique()))} nodes"


def words(local: pd.DataFrame) -> str:
    """What the control says about these rows, for a figure; "" where no node was emulated."""
    rows = local[local["cpus_per_node"].notna()]
    if rows.empty:
        return ""
    off, bound = rows["control_off"], rows["flat_within_fraction"].max()
    bad = rows[off.abs() > rows["flat_within_fraction"]]
    if not bad.empty:
        worst = max(bad["control_off"], key=abs)
        return (
            f"this machine cannot emulate {numbers(bad['nodes'])}: without allreduce their throughput is up to "
            f"{100 * worst:+.0f} % off that of one alone (bound: {100 * bound:.0f} %)"
        )
    if off.isna().any():
        return "emulated without a complete control: it is not known whether nodes disturbed each other"
    return f"control: without allreduce, nodes within {100 * off.abs().max():.0f} % of one alone"
