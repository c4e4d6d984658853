"""Whether emulated nodes disturbed each other: what a node did among others without allreduce, against alone."""

import pandas as pd

# What a run and its control share. In strong scaling the batch of a rank shrinks: each has its own node alone.
_SAME = ["experiment", "model", "image_size", "precision", "machine", "measure", "batch_per_rank", "ranks_per_node"]


def deviations(own: pd.DataFrame) -> pd.DataFrame:
    """One row a kind of control run: what it shares with its points, `nodes`, and `control_off`.

    That is images/s of a rank on so many nodes over those on one node - 1, means over repeats; NaN where no run on one
    node is there to compare with.
    """
    runs = own[own["kind"].eq("control") & own["quantity"].eq("images_per_s_per_rank")]
    mean = runs.groupby([*_SAME, "nodes"], dropna=False)["value"].mean().rename("mean").reset_index()
    alone = mean[mean["nodes"].eq(1)].drop(columns="nodes").rename(columns={"mean": "alone"})
    both = mean.merge(alone, on=_SAME, how="left")
    return both.assign(control_off=both["mean"] / both["alone"] - 1).drop(columns=["mean", "alone"])


def attach(own: pd.DataFrame) -> pd.DataFrame:
    """One's own table with the column `control_off` filled: of rows on emulated nodes that have a control."""
    if not own["kind"].eq("control").any():
        return own
    found = own.drop(columns="control_off").merge(deviations(own), on=[*_SAME, "nodes"], how="left")
    found["control_off"] = found["control_off"].where(found["cpus_per_node"].notna())
    return found[own.columns]


def lost(own: pd.DataFrame) -> pd.Series:
    """Which rows are no measurement of scaling: ranks shared cores, or emulated nodes disturbed each other."""
    disturbed = own["control_off"].abs() > own["flat_within_fraction"]
    return own["cores_shared"].fillna(False).astype(bool) | disturbed


def numbers(nodes: pd.Series) -> str:
    """Each number of nodes once, in their order: "2, 8 nodes"."""
    return f"{', '.join(str(number) for number in sorted(nodes.unique()))} nodes"


def words(own: pd.DataFrame) -> str:
    """What the control says of these rows, for a figure; "" where no node was emulated."""
    rows = own[own["cpus_per_node"].notna()]
    if rows.empty:
        return ""
    off, bound = rows["control_off"], rows["flat_within_fraction"].max()
    bad = rows[off.abs() > rows["flat_within_fraction"]]
    if not bad.empty:
        worst = max(bad["control_off"], key=abs)
        return (
            f"this machine cannot emulate {numbers(bad['nodes'])}: without allreduce they run up to "
            f"{100 * worst:+.0f} % off one alone (bound: {100 * bound:.0f} %)"
        )
    if off.isna().any():
        return "emulated without a whole control: nothing says whether nodes disturbed each other"
    return f"control: without allreduce, nodes within {100 * off.abs().max():.0f} % of one alone"
