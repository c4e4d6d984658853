"""What bounds the throughput of one point, and the energy of an image there."""

from __future__ import annotations

import pandas as pd

from analysis import speedups
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.stats.repeats import Launches
from analysis.table.hardware import COMPUTE, GPUS, LINK, PROCESSORS


def point_limits(local: pd.DataFrame, runs: pd.DataFrame) -> dict[str, float]:
    """The limits of one point [images/s], by quantity: means over its launches.

    runs: of the point, as `speedups.rates` gives them.
    """
    at = speedups.rows_of_point(local, runs)
    found = {name: at.loc[at["quantity"].eq(name), "value"] for name in (COMPUTE, LINK)}
    return {name: float(values.mean()) for name, values in found.items() if len(values)}


ENERGY_LABELS = {PROCESSORS: "processors [J/image]", GPUS: "GPUs [J/image]"}
ENERGIES = frozenset(ENERGY_LABELS)  # the quantities of energy


def point_energy(local: pd.DataFrame, at: pd.DataFrame) -> dict[str, Number]:
    """The joules of an image of one point, by quantity: medians over rounds or launches, where they are known.

    at: the runs of the point, as `speedups.rates` gives them.
    """
    found = {quantity: joules(local, at, quantity) for quantity in ENERGY_LABELS}
    return {quantity: repeats.median(values) for quantity, values in found.items() if values}


def joules(local: pd.DataFrame, at: pd.DataFrame, quantity: str) -> Launches:
    """The joules of an image in each round or launch of a point."""
    rows = speedups.rows_of_point(local, at)
    of_launches = rows[rows["quantity"].eq(quantity)].groupby("record", sort=False)["value"]
    return [values.tolist() for _, values in of_launches]
