"""What links of limited rates cost: throughput and step times of network_sweep against its control."""

import math

import pandas as pd

from analysis import control, metrics

_COLUMNS = ["model", "series", "nodes", "parameters", "link", "place", "n", "step_s", "control_s", "least_s", "lost"]
_COLUMNS += [name + end for name in ("share", "exposed_s") for end in ("", "_low", "_high")]


def least_s(parameters: int, nodes: int, mbit_per_s: float) -> float:
    """Seconds that a link needs at least to carry a ring allreduce of fp32 gradients; 0 where it has no limit.

    2 (n - 1) / n x 4 bytes x parameters leave each node, and as many reach it (Patarasuk and Yuan 2009, theorem 1).
    """
    if math.isnan(mbit_per_s):
        return 0.0
    return 2 * (nodes - 1) / nodes * 4 * parameters * 8 / (mbit_per_s * 1e6)


def sweep(own: pd.DataFrame) -> pd.DataFrame:
    """One row a model and link rate of one's own records of network_sweep.

    Columns: model, series, nodes, parameters, link (its rate in words), place (0 for the slowest), n, step_s and
    control_s (time of a step with allreduce and of the control's) [s], least_s (`least_s`), share (throughput over the
    control's) and exposed_s (step_s - control_s) [s], both with the ends of their 95 % intervals (`_low`, `_high`);
    lost: the nodes disturbed each other.
    Models without a control are left out.
    """
    runs = metrics.rates(own)
    runs = runs.assign(step_s=runs["global_batch"].astype(float) / runs["rate"])
    rates = sorted(runs.loc[runs["kind"].eq("measured"), "link_mbit_per_s"].unique(), key=lambda r: (math.isnan(r), r))
    found = []
    for _, rows in runs[runs["kind"].eq("measured")].groupby(["model", "series"], sort=False):
        model, series = rows["model"].iloc[0], rows["series"].iloc[0]
        nodes = int(rows["nodes"].iloc[0])
        alike = runs["kind"].eq("control") & runs["model"].eq(model) & runs["nodes"].eq(nodes)
        alike &= runs["batch_per_rank"].eq(rows["batch_per_rank"].iloc[0]) & runs["machine"].eq(rows["machine"].iloc[0])
        if not alike.any():
            continue
        control_step = metrics.estimate(runs.loc[alike, "step_s"].tolist())
        control_rate = metrics.estimate(runs.loc[alike, "rate"].tolist())
        for place, rate in enumerate(rates):
            at = rows[rows["link_mbit_per_s"].isna() if math.isnan(rate) else rows["link_mbit_per_s"].eq(rate)]
            if at.empty:
                continue
            step = metrics.estimate(at["step_s"].tolist())
            share = metrics.ratio(metrics.estimate(at["rate"].tolist()), control_rate)
            exposed = metrics.difference(step, control_step)
            found.append(
                [
                    model, series, nodes, int(rows["parameters"].iloc[0]),
                    "no limit" if math.isnan(rate) else f"{rate:g}", place, step.n, step.value, control_step.value,
                    least_s(int(rows["parameters"].iloc[0]), nodes, rate), bool(control.lost(at).any()),
                    share.value, share.low, share.high, exposed.value, exposed.low, exposed.high,
                ]
            )  # fmt: skip
    return pd.DataFrame(found, columns=_COLUMNS)
