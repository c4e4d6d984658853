"""The values of each point, one a launch, and the comparison of two sets of launches.

Training has images/s, the speedup over the smallest point, wall time and job time. Allreduce alone has the time of the
smallest message, which shows the latency, and the bus bandwidth of the largest.

`benchmarks/history_power.py` simulates how often the verdicts are wrong; docs/validation.md has the results.
"""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pandas as pd

from analysis import labels, speedups
from analysis.compare import Judged, compared
from analysis.documents import counted
from analysis.experiments import allreduce
from analysis.stats import Number, student, unknown
from analysis.stats.verdict import Bounds
from analysis.table import controls
from analysis.table.identity import SCALING, phrase

Quantity = Literal["images_per_s", "speedup", "wall_s", "job_s", "bus_bandwidth_bytes_per_s", "allreduce_s"]
_UNITS: dict[Quantity, str] = {
    "speedup": "x", "wall_s": "s", "job_s": "s",
    "bus_bandwidth_bytes_per_s": "bytes/s", "allreduce_s": "s",
}  # fmt: skip
_TIMES: dict[str, Quantity] = {"wall time": "wall_s", "job time": "job_s"}


@dataclass(frozen=True, order=True)
class Key:
    """The identity of a point over time: measurements with one key are compared."""

    experiment: str
    model: str
    ranks: int
    point: str  # the rest as text
    quantity: Quantity
    series: str  # a digest of the configuration and the machine
    machine: str
    unit: str


@dataclass
class Values:
    """The values of a point, one a launch, by the number of their session."""

    by_session: dict[int, list[float]] = field(default_factory=dict)
    invalid: dict[int, str] = field(default_factory=dict)  # why a session is not valid as a scaling result
    records: set[str] = field(default_factory=set)  # paths
    in_rounds: bool = False
    images: float = 0.0  # that the job trained on; 0: not known

    def add(self, session: int, rows: pd.DataFrame, values: list[float]) -> None:
        """Add the values of a session; rows: from which they are, as from `speedups.rates`."""
        self.by_session[session] = values
        self.records |= {*rows["record"]}
        self.in_rounds |= bool(rows["round"].notna().any())
        if why := str(controls.why_invalid(rows).iloc[0]):
            self.invalid[session] = why

    def all(self) -> list[float]:
        """Return the values of all sessions."""
        return [value for values in self.by_session.values() for value in values]

    def on(self, numbers: Collection[int]) -> list[float]:
        """Return the values of some sessions."""
        return [value for session, values in self.by_session.items() if session in numbers for value in values]

    def why_invalid(self, numbers: Collection[int]) -> str:
        """Return why some sessions are not valid as scaling results; "" if all are valid."""
        return "; ".join(dict.fromkeys(why for session, why in self.invalid.items() if session in numbers))


def launch_values(tables: Mapping[int, pd.DataFrame]) -> dict[Key, Values]:
    """Return the values of each point; tables: the local rows of each session, by its number."""
    values: dict[Key, Values] = defaultdict(Values)
    for session, table in tables.items():
        for measured in (_throughputs, _times, _allreduces):
            for key, rows, by_launch in measured(table):
                values[key].add(session, rows, by_launch)
                if key.quantity in _TIMES.values():
                    values[key].images = round(float((rows["rate"] * rows["value"]).iloc[0]))
    return dict(sorted(values.items(), key=lambda item: item[0]))


PointValues = Iterator[tuple[Key, pd.DataFrame, list[float]]]  # a point, its rows and its values


def _throughputs(table: pd.DataFrame) -> PointValues:
    """Yield a rate per launch of each point, and a speedup per launch if there is a smaller point."""
    rates = speedups.rates(table).dropna(subset="rate")
    for _, curve in rates.groupby(["model", "series"], sort=False):
        base = speedups.base_of(curve, rates)
        smallest = curve if base is None else base
        smallest = smallest[smallest["ranks"].eq(smallest["ranks"].min())]
        scales = set(curve["axis"]) <= set(SCALING)
        for _, point in curve.groupby(["ranks", "axis_value"], dropna=False, sort=False):
            yield _key(point, "images_per_s"), point, _rates(point)
            is_base = base is None and point["ranks"].iloc[0] == curve["ranks"].min()  # its speedup is 1 by definition
            if scales and not is_base and (values := _speedups(point, smallest)):
                yield _key(point, "speedup"), point, values


def _times(table: pd.DataFrame) -> PointValues:
    """Yield wall times and job times of the points that were measured in separate launches."""
    for name, quantity in _TIMES.items():
        launches = speedups.rates(table, name).dropna(subset="rate")
        for _, point in launches.groupby(["model", "series", "ranks", "axis_value"], dropna=False, sort=False):
            yield _key(point, quantity), point, _by_launch(point, "value", statistics.fmean)


def _allreduces(table: pd.DataFrame) -> PointValues:
    """Yield the smallest message's time and the largest one's bandwidth of each point of allreduce alone."""
    for _, point in allreduce.rounds(table).groupby(["series", "ranks", "axis_value"], dropna=False, sort=False):
        sizes = point["message_bytes"]
        smallest, largest = point[sizes.eq(sizes.min())], point[sizes.eq(sizes.max())]
        key = _key(smallest, "allreduce_s", allreduce.size_label(sizes.min()))
        yield key, smallest, _by_launch(smallest, "time_s", statistics.fmean)
        key = _key(largest, "bus_bandwidth_bytes_per_s", allreduce.size_label(sizes.max()))
        yield key, largest, _by_launch(largest, "rate", statistics.harmonic_mean)


def _by_launch(point: pd.DataFrame, column: str, mean: Callable[[Sequence[float]], float]) -> list[float]:
    """Return one value per launch, over its rounds if it has some."""
    return [mean(rows[column].tolist()) for _, rows in point.groupby("record")]


def _rates(point: pd.DataFrame) -> list[float]:
    """Return the typical rate of a point in each launch."""
    return [speedups.rate_of(rows).value for _, rows in point.groupby("record")]


def _speedups(point: pd.DataFrame, base: pd.DataFrame) -> list[float]:
    """Return the speedup of a point in each launch: of its rounds, or that of each repeat."""
    if not point["launch"].ne("").any():
        return [*speedups.paired_ratios(point, base).values()]
    ratios = (speedups.ratio(rows, base[base["launch"].eq(name)]) for name, rows in point.groupby("launch"))
    return [ratio.value for ratio in ratios if ratio.n]


def _key(point: pd.DataFrame, quantity: Quantity, *more: str) -> Key:
    """Return the key of one point; `more`: further parts of its name."""
    first = point.iloc[0]
    has_value = first["axis"] not in ("", "nodes") and not pd.isna(first["axis_value"])
    along = phrase(first["axis"], first["axis_value"]) if has_value else ""
    parts = filter(None, [counted(first["nodes"], "node"), along, first["swept"], first["arm"], *more])
    return Key(
        first["experiment"], first["model"], int(first["ranks"]), ", ".join(parts), quantity, first["series"],
        first["machine"], labels.rate_unit(point) if quantity == "images_per_s" else _UNITS[quantity],
    )  # fmt: skip


_ENOUGH_LAUNCHES = 3  # on either side: they show how far launches differ
LEAST_DAYS = 3  # with Student's t of two days an interval is 13 standard deviations to either side


@dataclass(frozen=True)
class Change:
    """The values of a point before and now, and why they cannot be judged ("" where they can)."""

    key: Key
    before: tuple[float, ...]
    now: tuple[float, ...]
    older: tuple[tuple[float, ...], ...] = ()  # launches that only show how far launches scatter
    why_not: str = ""
    source: str = ""  # of `Comparison`
    on: str = ""

    @property
    def groups(self) -> list[tuple[float, ...]]:
        """Return its values in groups, each of which scatters about its mean."""
        return [group for group in (self.before, self.now, *self.older) if len(group) > 1]


def compare_launches(changes: Sequence[Change], allowed: Bounds) -> list[Judged]:
    """Return each change as a comparison, with the verdict on it alone; allowed: ratios of now to before."""
    return [_compared(change, _measured_alike(change, changes), allowed) for change in changes]


def _compared(change: Change, alike: Sequence[Change], allowed: Bounds) -> Judged:
    key, few = change.key, min(len(change.before), len(change.now))
    ratio, note, why_not = unknown(), "", change.why_not
    if few:
        ratio = mean_ratio(change.before, change.now, [*change.older, *(g for other in alike for g in other.groups)])
        if alike and not why_not:
            others = counted(len(alike), "other curve")
            note = f"{counted(few, 'launch')}: with the variance between launches of {others}"
        elif not ratio.has_interval and not why_not:
            why_not = "one launch before and one now: how far launches differ is not known"
    return compared(
        launch_mean(change.before), launch_mean(change.now), ratio, allowed, why_not, note,
        experiment=key.experiment, model=key.model, point=key.point, quantity=key.quantity,
        unit=key.unit, source=change.source, on=change.on,
    )  # fmt: skip


def _measured_alike(change: Change, changes: Sequence[Change]) -> list[Change]:
    """Return the changes of other curves on equally many ranks, if a side has too few launches to know the scatter."""
    if min(len(change.before), len(change.now)) >= _ENOUGH_LAUNCHES:
        return []
    others = [other for other in changes if other.key.model != change.key.model and other.groups]
    point = replace(change.key, model="", series="")
    return [other for other in others if replace(other.key, model="", series="") == point]


def launch_mean(values: Sequence[float]) -> Number:
    """Return the mean over launches with Student's interval on the logarithm; one launch has no interval."""
    return student.on_logarithm(student.mean(values)) if values else unknown(n=0)


def days_mean(days: Sequence[Sequence[float]]) -> Number:
    """Return the mean of the means of days, each of its launches, with an interval for the variation between days.

    A day is one value, however many launches it has: these are alike, as nothing of the machine changed between them.
    Without an interval for fewer than LEAST_DAYS.
    """
    number = launch_mean([statistics.fmean(values) for values in days])
    return replace(number, variation="between days") if len(days) >= LEAST_DAYS else unknown(number.value, number.n)


def mean_ratio(before: Sequence[float], now: Sequence[float], older: Sequence[Sequence[float]] = ()) -> Number:
    """Return mean(now) / mean(before) of values of launches, with its interval.

    Without older groups, and with two launches or more on both sides, it is Welch's interval. Otherwise the scatter is
    pooled about the mean of each group: before, now, and each of `older`. There is no interval with one launch in each
    group.
    """
    if not any(len(values) > 1 for values in older) and min(len(before), len(now)) > 1:
        return student.ratio_of_means(before, now)
    return student.pooled_ratio_of_means(before, now, older)


def within(fraction: float) -> Bounds:
    """Return the ratios of values that count as the same."""
    return Bounds(1 - fraction, 1 + fraction)
