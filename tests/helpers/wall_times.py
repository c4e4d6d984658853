"""Runs of one curve of wall times, as `analysis.explain.runs` returns them."""

import math

import pandas as pd


def curve(ranks, steps, wall_s, batch=64, speed=math.nan, **more) -> pd.DataFrame:
    """A run for each of `ranks`, or of `steps`; speed: measured images/s of a rank."""
    columns = {"model": "m", "ranks": ranks, "steps_per_rank": steps, "batch_per_rank": batch, "wall_s": wall_s}
    return pd.DataFrame(columns | {"images_per_s_per_rank": speed} | more)
