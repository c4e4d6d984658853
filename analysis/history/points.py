"""The values of each point, by session and launch.

Training has images/s, the speedup over the smallest point, wall time and job time. Allreduce alone has the time of the
smallest message, which shows the latency, and the bus bandwidth of the largest.
"""

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

import pandas as pd

from analysis import speedups
from analysis.experiments import allreduce
from analysis.history.sessions import Session
from analysis.table import controls
from analysis.table.identity import SCALING, phrase
from analysis.text import counted

Quantity = Literal["images_per_s", "speedup", "wall_s", "job_s", "bus_bandwidth_bytes_per_s", "allreduce_s"]
Unit = Literal["images/s", "x", "s", "bytes/s"]
UNITS: dict[Quantity, Unit] = {
    "images_per_s": "images/s", "speedup": "x", "wall_s": "s", "job_s": "s",
    "bus_bandwidth_bytes_per_s": "bytes/s", "allreduce_s": "s",
}  # fmt: skip
COSTS: tuple[Quantity, ...] = ("wall_s", "job_s", "allreduce_s")  # that are larger where a machine is slower


@dataclass(frozen=True, order=True)
class Key:
    """The identity of a point over time: measurements with one key are compared."""

    experiment: str
    model: str
    ranks: int
    point: str  # the rest in words
    quantity: Quantity
    series: str  # a digest of the configuration and the machine
    machine: str


@dataclass
class Values:
    """One number per launch, by session number; and why a session is not valid as a scaling result."""

    by_session: dict[int, list[float]] = field(default_factory=dict)
    lost: dict[int, str] = field(default_factory=dict)

    def on(self, numbers: Collection[int]) -> list[float]:
        """Return the values of some sessions."""
        return [value for session, values in self.by_session.items() if session in numbers for value in values]

    def why_lost(self, numbers: Collection[int]) -> str:
        """Return why some sessions are not valid as scaling results; "" if all are valid."""
        return "; ".join(dict.fromkeys(why for session, why in self.lost.items() if session in numbers))


def histories(sessions: Iterable[Session]) -> dict[Key, Values]:
    """Return the values of each point in the sessions of one machine."""
    histories: dict[Key, Values] = defaultdict(Values)
    for session in sessions:
        for measured in (_throughputs, _times, _allreduces):
            for key, values, lost in measured(session.table):
                histories[key].by_session[session.number] = values
                if lost:
                    histories[key].lost[session.number] = lost
    return dict(sorted(histories.items(), key=lambda item: item[0]))


# A point, its values, and why they are not valid as scaling results.
PointValues = Iterator[tuple[Key, list[float], str]]


def _throughputs(table: pd.DataFrame) -> PointValues:
    """Yield a rate per launch of each point, and a speedup per launch if there is a smaller point."""
    rates = speedups.rates(table).dropna(subset="rate")
    for _, curve in rates.groupby(["model", "series"], sort=False):
        base = speedups.base_of(curve, rates)
        paired = speedups.paired(curve, "ranks", base)
        scales = set(curve["axis"]) <= set(SCALING)
        for _, point in curve.groupby(["ranks", "axis_value"], dropna=False, sort=False):
            lost = _lost(point)
            yield _key(point, "images_per_s"), _by_launch(point, "rate", statistics.harmonic_mean), lost
            ranks = int(point["ranks"].iloc[0])
            is_base = base is None and ranks == curve["ranks"].min()  # its speedup is 1 by definition
            if scales and not is_base and (values := _speedups(paired, ranks)):
                yield _key(point, "speedup"), values, lost


def _times(table: pd.DataFrame) -> PointValues:
    """Yield wall times and job times of the points that were measured in separate launches.

    A launch whose ranks changed, as in elastic training, has no time to compare.
    """
    by: dict[str, Quantity] = {"wall time": "wall_s", "job time": "job_s"}
    for name, quantity in by.items():
        launches = speedups.rates(table, name).dropna(subset="rate")
        for _, point in launches.groupby(["model", "series", "ranks", "axis_value"], dropna=False, sort=False):
            yield _key(point, quantity), _by_launch(point, "value", statistics.fmean), _lost(point)


def _allreduces(table: pd.DataFrame) -> PointValues:
    """Yield the smallest message's time and the largest one's bandwidth of each point of allreduce alone."""
    for _, point in allreduce.rounds(table).groupby(["series", "ranks", "axis_value"], dropna=False, sort=False):
        sizes = point["message_bytes"]
        smallest, largest = point[sizes.eq(sizes.min())], point[sizes.eq(sizes.max())]
        yield _message_key(smallest, "allreduce_s"), _by_launch(smallest, "time_s", statistics.fmean), _lost(point)
        rates = _by_launch(largest, "rate", statistics.harmonic_mean)
        yield _message_key(largest, "bus_bandwidth_bytes_per_s"), rates, _lost(point)


def _message_key(rows: pd.DataFrame, quantity: Quantity) -> Key:
    return _key(rows, quantity, allreduce.size_label(rows["message_bytes"].iloc[0]))


def _by_launch(point: pd.DataFrame, column: str, mean: Callable[[Sequence[float]], float]) -> list[float]:
    """Return one value per launch, over its rounds if it has some."""
    return [mean(rows[column].tolist()) for _, rows in point.groupby("record")]


def _lost(point: pd.DataFrame) -> str:
    return str(controls.why_invalid(point).iloc[0])


def _speedups(paired: pd.DataFrame, ranks: int) -> list[float]:
    """Return the speedup of a point in each launch: the median over its rounds, or that of each repeat."""
    pairs = paired[paired["size"].eq(ranks) & paired["speedup"].notna()]
    if not pairs["launch"].ne("").any():
        return pairs["speedup"].tolist()
    return [statistics.median(ratios) for ratios in speedups.by_launch(pairs, "speedup")]


def _key(point: pd.DataFrame, quantity: Quantity, *more: str) -> Key:
    """Return the key of one point; `more`: words that identify it beside those of its rows."""
    first = point.iloc[0]
    named = first["axis"] not in ("", "nodes") and not pd.isna(first["axis_value"])
    along = phrase(first["axis"], first["axis_value"]) if named else ""
    parts = filter(None, [counted(first["nodes"], "node"), along, first["swept"], first["arm"], *more])
    return Key(
        first["experiment"], first["model"], int(first["ranks"]), ", ".join(parts), quantity, first["series"],
        first["machine"],
    )  # fmt: skip
