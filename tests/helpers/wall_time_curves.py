"""Wall times of the runs of one curve, as `analysis.explain.wall_time_runs` returns them."""

import math

import pandas as pd


def curve(ranks, steps, wall_s, batch=64, speed=math.nan, **columns) -> pd.DataFrame:
    """Return a run for each of `ranks` or `steps`. speed: measured images/s of a rank."""
    runs = {"model": "m", "ranks": ranks, "steps_per_rank": steps, "batch_per_rank": batch, "wall_s": wall_s}
    return pd.DataFrame(runs | {"images_per_s_per_rank": speed} | columns)
