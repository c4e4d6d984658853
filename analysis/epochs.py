"""Training over epochs: the values after the last epoch of each run, and when the accuracy was stable."""

import math

import pandas as pd

from analysis import metrics

_TRAINING = ["epoch_s", "epochs_to_stable", "time_to_stable_s"]


def final(local: pd.DataFrame, quantity: str) -> pd.Series:
    """Return the value of a quantity after the last epoch of each run, by record."""
    rows = local[local["quantity"] == quantity]
    return rows.sort_values("epoch", kind="stable").groupby("record")["value"].last()


def training(local: pd.DataFrame) -> pd.DataFrame:
    """Return one row per run that trained over epochs, with its identity and three numbers.

    `epoch_s`: the median over its epochs, of which the first of a launch also traces the step. `epochs_to_stable`: see
    `metrics.epochs_to_stable`, of the validation accuracy; `time_to_stable_s`: the sum of these epochs' times, without
    evaluation. Both NaN where nothing was validated.
    """
    runs = []
    for _, run in local[local["epoch"].notna()].groupby("record", sort=False):
        times = run[run["quantity"] == "epoch_s"]
        accuracy = run[run["quantity"] == "validation_accuracy"].sort_values("epoch")
        stable = _stable(accuracy)
        runs.append(
            times.iloc[[0]].assign(
                epoch_s=times["value"].median(),
                epochs_to_stable=stable,
                time_to_stable_s=math.nan if math.isnan(stable) else times.loc[times["epoch"] <= stable, "value"].sum(),
            )
        )
    return pd.concat(runs) if runs else local.iloc[:0].reindex(columns=[*local.columns, *_TRAINING])


def _stable(accuracy: pd.DataFrame) -> float:
    """Return the epoch from which the accuracy is stable; NaN without one."""
    if accuracy.empty:
        return math.nan
    return float(metrics.epochs_to_stable(accuracy["epoch"].tolist(), accuracy["value"].tolist()))
