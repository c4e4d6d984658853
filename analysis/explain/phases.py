"""Where the fixed cost of local records went, phase by phase."""

from __future__ import annotations

import pandas as pd

from analysis import metrics
from analysis.explain.tidy import PHASES


def phases(points: pd.DataFrame) -> pd.DataFrame:
    """Where the fixed cost of local records went [s], one row a rank count, mean over repeats; empty without phases.

    With `step` = batch_per_rank / images_per_s_per_rank, the time of one steady step: the broadcast; the first step
    less `step`; warm-up and timed steps less `step` each; what the four phases do not account for (ranks that waited in
    different phases); and their sum, the fixed cost that was measured.
    """
    columns = [f"phase_{name}_s" for name in PHASES]
    if any(column not in points for column in columns):
        return pd.DataFrame()
    step = metrics.step_s(points["batch_per_rank"].astype(float), points["images_per_s_per_rank"])
    broadcast, first, warm_up, timed = (points[column] for column in columns)
    split = pd.DataFrame(
        {
            "ranks": points["ranks"],
            "broadcast_s": broadcast,
            "first_step_s": first - step,
            "warm_up_s": warm_up + timed - (points["steps_per_rank"] - 1) * step,
            "other_s": points["wall_s"] - broadcast - first - warm_up - timed,
        }
    )
    split["fixed_s"] = split.drop(columns="ranks").sum(axis=1, skipna=False)
    # Below a microsecond there is only rounding, on either side of 0.
    return split.groupby("ranks", sort=True).mean().dropna().round(6).add(0.0).reset_index()
