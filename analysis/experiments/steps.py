"""Step times as distributions: every timed step of each point, as its records hold them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import speedups
from train.record import batch
from train.record.record import RunRecord

Times = NDArray[np.float64]


def _slowest(of_ranks: list[list[float]]) -> list[float]:
    """Each step on its slowest rank; of rank 0 where elastic training changed the ranks on the way."""
    if len({len(times) for times in of_ranks}) > 1:
        return of_ranks[0]
    return np.max(of_ranks, axis=0).tolist()


def times(run: RunRecord, point: pd.Series) -> list[float]:
    """The timed steps [s] of a launch, each on its slowest rank; of one in rounds those of one point, window by window.

    `point`: a row of the local table. Empty where the launch has no such arm.
    """
    arms: list[dict[str, Any]] = run.config.get("rounds", [])
    if not arms:
        return _slowest([rank.step_times_s for rank in run.ranks])
    wanted = [point["nodes"], point["batch_per_rank"], point["allreduce"], point["role"]]
    windows = defaultdict(list)
    for window in (window for rank in run.ranks for window in rank.windows):
        arm = arms[window.arm]
        if [arm["nodes"], batch.of_arm(arm), arm["allreduce"], arm["role"]] == wanted:
            windows[window.round].append(window.step_times_s)
    return [time_s for of_ranks in windows.values() for time_s in _slowest(of_ranks)]


def distributions(local: pd.DataFrame, records: Mapping[str, RunRecord]) -> pd.DataFrame:
    """One row a launch and point whose throughput counts: its identity, and `times` [s], its timed steps.

    records: by path.
    """
    at = speedups.rates(local).drop_duplicates(["record", "series", "axis_value", "batch_per_rank"])
    found = at.assign(
        times=pd.Series({i: times(records[row["record"]], row) for i, row in at.iterrows()}, dtype=object)
    )
    return found[found["times"].str.len() > 0]
