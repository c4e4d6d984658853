"""The numbers in local records, by kind of experiment. Here: numbers of points and runs other than throughput.

They are bounds, energy of an image, step times and training over epochs. A kind of experiment is recognised by its
records (an axis, arms, epochs, times of allreduces, ...), never by a name.
"""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis import metrics, speedups
from analysis.stats import Number, repeats
from analysis.table.hardware import COMPUTE, GPUS, LINK, PER_EPOCH, PROCESSORS
from record import recorded_config
from record.rounds import windows_by_turn
from record.schema import RunRecord

StepTimes = NDArray[np.float64]
BOUNDS = (COMPUTE, LINK)
ENERGY_LABELS = {PROCESSORS: "processors [J/image]", GPUS: "GPUs [J/image]"}
ENERGY_LABELS |= {PER_EPOCH[name]: label.replace("image", "epoch") for name, label in ENERGY_LABELS.items()}


def point_bounds(rows: pd.DataFrame) -> dict[str, float]:
    """Return the roofline bounds of one point [images/s], by quantity: the largest of its launches.

    rows: of the point, as from `speedups.rows_of_point`.
    """
    bounds = rows[rows["quantity"].isin(BOUNDS)].groupby("quantity")["value"].max()
    return {str(name): float(value) for name, value in bounds.items()}


def point_energy(rows: pd.DataFrame) -> dict[str, Number]:
    """Return the joules of an image and of an epoch of one point, by quantity: typical ones, if they are known.

    rows: of the point, as from `speedups.rows_of_point`.
    """
    measured = [quantity for quantity in ENERGY_LABELS if quantity in rows["quantity"].array]
    return {quantity: repeats.typical(joules(rows, quantity)) for quantity in measured}


def joules(rows: pd.DataFrame, quantity: str) -> repeats.Launches:
    """Return the joules of an image, or of an epoch, in each round or launch of a point, from its rows."""
    return speedups.by_record(rows[rows["quantity"].eq(quantity)], "value")


def step_times(local: pd.DataFrame, records: Mapping[str, RunRecord]) -> pd.DataFrame:
    """Return one row for each launch and point whose throughput counts: its identity, and `times`, its timed steps [s].

    records: by path.
    """
    rows = speedups.rates(local).drop_duplicates(["record", "series", "axis_value", "batch_per_rank"])
    times = {index: _times(records[row["record"]], row) for index, row in rows.iterrows()}
    rows = rows.assign(times=pd.Series(times, dtype=object))
    return rows[rows["times"].str.len() > 0]


def _times(run: RunRecord, point: pd.Series) -> list[float]:
    """Return the timed steps [s] of a launch, each on its slowest rank; in rounds those of one point, window by window.

    `point`: a row of the local table. Empty where the launch has no such arm.
    """
    arms: list[dict[str, Any]] = run.config.get("rounds", [])
    if not arms:
        return _slowest([rank.step_times_s for rank in run.ranks])
    key = [point["nodes"], point["batch_per_rank"], point["allreduce"], point["role"]]
    keys = [[arm["nodes"], recorded_config.arm_step_batch(arm), arm["allreduce"], arm["role"]] for arm in arms]
    turns = windows_by_turn(rank.windows for rank in run.ranks)
    windows = [windows for (_, arm), windows in turns.items() if keys[arm] == key]
    return [time_s for at in windows for time_s in _slowest([window.step_times_s for window in at])]


def _slowest(times_by_rank: list[list[float]]) -> list[float]:
    """Return each step on its slowest rank."""
    return np.max(times_by_rank, axis=0).tolist()


_TRAINING = ["epoch_s", "epochs_to_stable", "time_to_stable_s"]


def final_values(local: pd.DataFrame, quantity: str) -> pd.Series:
    """Return the value of a quantity after the last epoch of each run, by record."""
    rows = local[local["quantity"] == quantity]
    return rows.sort_values("epoch", kind="stable").groupby("record")["value"].last()


def training_runs(local: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run that trained over epochs, with its identity and three numbers.

    `epoch_s`: the median over its epochs, of which the first of a launch also traces the step. `epochs_to_stable`: see
    `metrics.epochs_to_stable`, of the validation accuracy; `time_to_stable_s`: the sum of these epochs' times, without
    evaluation. Both NaN where nothing was validated.
    """
    runs = []
    for _, run in local[local["epoch"].notna()].groupby("record", sort=False):
        times = run[run["quantity"] == "epoch_s"]
        accuracy = run[run["quantity"] == "validation_accuracy"].sort_values("epoch")
        stable, until_s = math.nan, math.nan
        if len(accuracy):
            stable = float(metrics.epochs_to_stable(accuracy["epoch"].tolist(), accuracy["value"].tolist()))
            until_s = times.loc[times["epoch"] <= stable, "value"].sum()
        numbers = zip(_TRAINING, (times["value"].median(), stable, until_s), strict=True)
        runs.append(times.iloc[[0]].assign(**dict(numbers)))
    return pd.concat(runs) if runs else local.iloc[:0].reindex(columns=[*local.columns, *_TRAINING])
