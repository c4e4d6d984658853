"""What each launch measured of each point, occasion by occasion: images/s, and the speedup over the smallest point."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from analysis import metrics
from analysis.history.occasions import Occasion
from analysis.table import controls
from analysis.table.identity import SCALING, phrase

Quantity = Literal["images_per_s", "speedup"]
UNITS: dict[Quantity, str] = {"images_per_s": "images/s", "speedup": "x"}


@dataclass(frozen=True, order=True)
class Key:
    """What makes a measurement of a point the same one another time."""

    experiment: str
    model: str
    ranks: int
    point: str  # the rest in words
    quantity: Quantity
    series: str  # a digest of the configuration and the machine
    machine: str


@dataclass
class Values:
    """One number a launch, by the number of the occasion; and why it is no measurement of scaling, if it is none."""

    of: dict[int, list[float]] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)

    def on(self, numbers: Collection[int]) -> list[float]:
        """The values of some occasions."""
        return [value for occasion, values in self.of.items() if occasion in numbers for value in values]

    def why_lost(self, numbers: Collection[int]) -> str:
        """Why a value of some occasions is no measurement of scaling; "" where all are."""
        return "; ".join(dict.fromkeys(why for occasion, why in self.lost.items() if occasion in numbers))


def histories(found: Iterable[Occasion]) -> dict[Key, Values]:
    """The values of each point on each of the occasions, which are of one machine."""
    histories: dict[Key, Values] = defaultdict(Values)
    for occasion in found:
        for key, values, lost in _of_occasion(occasion.table):
            histories[key].of[occasion.number] = values
            if lost:
                histories[key].lost[occasion.number] = lost
    return dict(sorted(histories.items(), key=lambda item: item[0]))


def _of_occasion(table: pd.DataFrame) -> Iterator[tuple[Key, list[float], str]]:
    """Each point of one occasion: a rate a launch, and a speedup a launch where there is a smaller point."""
    rates = metrics.rates(table).dropna(subset="rate")
    for (_, series), curve in rates.groupby(["model", "series"], sort=False):
        base = metrics.base_of(curve, rates)
        paired = metrics.paired(curve, "ranks", base)
        scales = set(curve["axis"]) <= set(SCALING)
        for _, point in curve.groupby(["ranks", "axis_value"], dropna=False, sort=False):
            lost = str(controls.why_lost(point).iloc[0])
            of_launches = [statistics.harmonic_mean(of["rate"].tolist()) for _, of in point.groupby("record")]
            yield _key(point, str(series), "images_per_s"), of_launches, lost
            ranks = int(point["ranks"].iloc[0])
            is_base = base is None and ranks == curve["ranks"].min()  # its speedup is 1 by definition
            if scales and not is_base and (speedups := _speedups(paired, ranks)):
                yield _key(point, str(series), "speedup"), speedups, lost


def _speedups(paired: pd.DataFrame, ranks: int) -> list[float]:
    """The speedup of a point in each launch: of rounds their median, of single points that of each repeat."""
    of_point = paired[paired["size"].eq(ranks) & paired["speedup"].notna()]
    if not of_point["launch"].ne("").any():
        return of_point["speedup"].tolist()
    return [statistics.median(of) for of in metrics.by_launch(of_point, "speedup")]


def _key(point: pd.DataFrame, series: str, quantity: Quantity) -> Key:
    first = point.iloc[0]
    nodes = f"{first['nodes']} node{'s' if first['nodes'] != 1 else ''}"
    along = [] if first["axis"] in ("", "nodes") or _missing(first["axis_value"]) else [_along(first)]
    words = [nodes, *along, *(word for word in (first["swept"], first["arm"]) if word)]
    return Key(
        first["experiment"], first["model"], int(first["ranks"]), ", ".join(words), quantity, series, first["machine"]
    )


def _along(first: pd.Series) -> str:
    return phrase(first["axis"], first["axis_value"])


def _missing(value: object) -> bool:
    return value is None or value is pd.NA or (isinstance(value, float) and math.isnan(value))
