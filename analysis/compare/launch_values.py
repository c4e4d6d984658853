"""The values of each point, one a launch, and the comparison of two sets of launches.

Training has images/s, the speedup over the smallest point, wall time and job time. Allreduce alone has the time of the
smallest message, which shows the latency, and the bus bandwidth of the largest.

`benchmarks/history_power.py` simulates how often the verdicts are wrong; docs/validation.md has the results.
"""

import statistics
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pandas as pd

from analysis import labels, speedups
from analysis.compare import Judged, compared
from analysis.experiments import allreduce_points
from analysis.stats import Number, repeats, student, unknown
from analysis.stats.verdict import Bounds
from analysis.table import controls
from analysis.table.swept_axis import SCALING, phrase
from common.terminal import counted
from record import intervals

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


@dataclass(frozen=True)
class Side:
    """One side of a comparison: the value of each launch, and their typical value, as `make summary` shows it."""

    launches: tuple[float, ...] = ()
    number: Number = field(default_factory=lambda: unknown(n=0))


@dataclass
class Values:
    """The values of a point, one a launch, by the number of their session."""

    quantity: Quantity = "images_per_s"
    by_session: dict[int, list[float]] = field(default_factory=dict)
    rows: dict[int, pd.DataFrame] = field(default_factory=dict)  # that they are from, as from `speedups.rates`
    base: dict[int, pd.DataFrame] = field(default_factory=dict)  # of a speedup
    invalid: dict[int, str] = field(default_factory=dict)  # why a session is not valid as a scaling result
    images: float = 0.0  # that the job trained on; 0: not known

    def add(self, session: int, rows: pd.DataFrame, base: pd.DataFrame | None, values: list[float]) -> None:
        """Add the values of a session with their rows."""
        self.by_session[session], self.rows[session] = values, rows
        if base is not None:
            self.base[session] = base
        if why := str(controls.why_invalid(rows.head(1)).iloc[0]):
            self.invalid[session] = why

    @property
    def records(self) -> set[str]:
        """Return the paths of their records."""
        return {record for rows in self.rows.values() for record in rows["record"]}

    @property
    def in_rounds(self) -> bool:
        """Return whether they were measured in rounds."""
        return any(rows["round"].notna().any() for rows in self.rows.values())

    def side(self, numbers: Collection[int] | None = None) -> Side:
        """Return the values of some sessions, or of all."""
        chosen = [session for session in self.by_session if numbers is None or session in numbers]
        if not chosen:
            return Side()
        rows = _joined([self.rows[session] for session in chosen])
        base = _joined([self.base[session] for session in chosen]) if self.base else rows
        launches = tuple(value for session in chosen for value in self.by_session[session])
        return Side(launches, _TYPICAL[self.quantity](rows, base))

    def why_invalid(self, numbers: Collection[int]) -> str:
        """Return why some sessions are not valid as scaling results; "" if all are valid."""
        return "; ".join(dict.fromkeys(why for session, why in self.invalid.items() if session in numbers))


_TURNS = 10**6  # more than a session has: repeats of two sessions are different turns


def _joined(tables: Sequence[pd.DataFrame]) -> pd.DataFrame:
    """Return the rows of several sessions, whose turns differ."""
    first, *others = tables
    others = [rows.assign(turn=rows["turn"] + nth * _TURNS) for nth, rows in enumerate(others, 1)]
    return pd.concat([first, *others]) if others else first


def _time(rows: pd.DataFrame, _: pd.DataFrame) -> Number:
    return repeats.shown(intervals.rate(speedups.by_turn(rows, "value")))


# The typical value of rows over those of a base, as the summary has it.
_TYPICAL: dict[Quantity, Callable[[pd.DataFrame, pd.DataFrame], Number]] = {
    "images_per_s": lambda rows, _: speedups.rate_of(rows),
    "speedup": speedups.ratio,
    "wall_s": _time,
    "job_s": _time,
    "allreduce_s": lambda rows, _: allreduce_points.time(rows),
    "bus_bandwidth_bytes_per_s": lambda rows, _: allreduce_points.bandwidth(rows),
}


def launch_values(tables: Mapping[int, pd.DataFrame]) -> dict[Key, Values]:
    """Return the values of each point; tables: the local rows of each session, by its number."""
    values: dict[Key, Values] = {}
    for session, table in tables.items():
        for measured in (_throughputs, _times, _allreduces):
            for key, rows, base, by_launch in measured(table):
                values.setdefault(key, Values(key.quantity)).add(session, rows, base, by_launch)
                if key.quantity in _TIMES.values():
                    values[key].images = round(float((rows["rate"] * rows["value"]).iloc[0]))
    return dict(sorted(values.items(), key=lambda item: item[0]))


# A point, its rows, those of its base if it has one, and its values.
PointValues = Iterator[tuple[Key, pd.DataFrame, pd.DataFrame | None, list[float]]]


_OF_RATE = ["record", "launch", "seed", "turn", "rate"]


def _throughputs(table: pd.DataFrame) -> PointValues:
    """Yield a rate per launch of each point, and a speedup per launch if there is a smaller point."""
    rates = speedups.rates(table).dropna(subset="rate")
    for _, curve in rates.groupby(["model", "series"], sort=False):
        base = speedups.base_of(curve, rates)
        smallest = curve if base is None else base
        smallest = smallest[smallest["ranks"].eq(smallest["ranks"].min())]
        scales = set(curve["axis"]) <= set(SCALING)
        for _, point in curve.groupby(["ranks", "axis_value"], dropna=False, sort=False):
            rates_of_launches = [speedups.rate_of(rows).value for _, rows in point[_OF_RATE].groupby("record")]
            yield _key(point, "images_per_s"), point, None, rates_of_launches
            is_base = base is None and point["ranks"].iloc[0] == curve["ranks"].min()  # its speedup is 1 by definition
            if scales and not is_base and (values := _speedups(point, smallest)):
                yield _key(point, "speedup"), point, smallest, values


def _times(table: pd.DataFrame) -> PointValues:
    """Yield wall times and job times of the points that were measured in separate launches."""
    for name, quantity in _TIMES.items():
        launches = speedups.rates(table, name).dropna(subset="rate")
        for _, point in launches.groupby(["model", "series", "ranks", "axis_value"], dropna=False, sort=False):
            yield _key(point, quantity), point, None, _by_launch(point, "value", statistics.fmean)


def _allreduces(table: pd.DataFrame) -> PointValues:
    """Yield the smallest message's time and the largest one's bandwidth of each point of allreduce alone."""
    rounds = allreduce_points.rounds(table).assign(turn=0)
    for _, point in rounds.groupby(["series", "ranks", "axis_value"], dropna=False, sort=False):
        sizes = point["message_bytes"]
        smallest, largest = point[sizes.eq(sizes.min())], point[sizes.eq(sizes.max())]
        key = _key(smallest, "allreduce_s", allreduce_points.size_label(sizes.min()))
        yield key, smallest, None, _by_launch(smallest, "time_s", statistics.fmean)
        key = _key(largest, "bus_bandwidth_bytes_per_s", allreduce_points.size_label(sizes.max()))
        yield key, largest, None, _by_launch(largest, "rate", statistics.harmonic_mean)


def _by_launch(point: pd.DataFrame, column: str, mean: Callable[[Sequence[float]], float]) -> list[float]:
    """Return one value per launch, over its rounds if it has some."""
    return [mean(values) for values in speedups.by_record(point, column)]


def _speedups(point: pd.DataFrame, base: pd.DataFrame) -> list[float]:
    """Return the speedup of a point in each launch: of its rounds, or that of each repeat."""
    if not point["launch"].ne("").any():
        return [*speedups.paired_ratios(point, base).values()]
    ratios = (speedups.ratio(rows, base[base["launch"].eq(name)]) for name, rows in point.groupby("launch"))
    return [ratio.value for ratio in ratios if ratio.n]


_OF_KEY = ["experiment", "model", "nodes", "ranks", "axis", "axis_value", "swept", "arm", "series", "machine"]


def _key(point: pd.DataFrame, quantity: Quantity, *more: str) -> Key:
    """Return the key of one point; `more`: further parts of its name."""
    first = point[_OF_KEY].iloc[0]
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
    before: Side
    now: Side
    older: tuple[tuple[float, ...], ...] = ()  # launches that only show how far launches scatter
    why_not: str = ""
    source: str = ""  # of `Comparison`
    on: str = ""

    @property
    def groups(self) -> list[tuple[float, ...]]:
        """Return its values in groups, each of which scatters about its mean."""
        return [group for group in (self.before.launches, self.now.launches, *self.older) if len(group) > 1]

    @property
    def fewest(self) -> int:
        """Return the number of launches of the side that has fewer."""
        return min(len(self.before.launches), len(self.now.launches))


def compare_launches(changes: Sequence[Change], allowed: Bounds) -> list[Judged]:
    """Return each change as a comparison, with the verdict on it alone; allowed: ratios of now to before."""
    return [_compared(change, _measured_alike(change, changes), allowed) for change in changes]


def _compared(change: Change, alike: Sequence[Change], allowed: Bounds) -> Judged:
    key, few = change.key, change.fewest
    ratio, note, why_not = unknown(), "", change.why_not
    if few:
        others = [*change.older, *(group for other in alike for group in other.groups)]
        value = change.now.number.value / change.before.number.value
        ratio = student.ratio_of_geometric_means(change.before.launches, change.now.launches, others, value)
        if alike and not why_not:
            curves = counted(len(alike), "other curve")
            note = f"{counted(few, 'launch')}: with the variance between launches of {curves}"
        elif not ratio.has_interval and not why_not:
            why_not = "one launch before and one now: how far launches differ is not known"
    return compared(
        change.before.number, change.now.number, ratio, allowed, why_not, note,
        experiment=key.experiment, model=key.model, point=key.point, quantity=key.quantity,
        unit=key.unit, source=change.source, on=change.on,
    )  # fmt: skip


def _measured_alike(change: Change, changes: Sequence[Change]) -> list[Change]:
    """Return the changes of other curves on equally many ranks, if a side has too few launches to know the scatter."""
    if change.fewest >= _ENOUGH_LAUNCHES:
        return []
    others = [other for other in changes if other.key.model != change.key.model and other.groups]
    point = replace(change.key, model="", series="")
    return [other for other in others if replace(other.key, model="", series="") == point]


def days_mean(days: Sequence[Sequence[float]]) -> Number:
    """Return the geometric mean of those of days, each of its launches, with an interval for the variation of days.

    A day is one value, however many launches it has: these are alike, as nothing of the machine changed between them.
    Without an interval for fewer than LEAST_DAYS.
    """
    if not days:
        return unknown(n=0)
    number = student.geometric_mean([statistics.geometric_mean(values) for values in days])
    return replace(number, variation="between days") if len(days) >= LEAST_DAYS else unknown(number.value, number.n)


def within(fraction: float) -> Bounds:
    """Return the ratios of values that count as the same."""
    return Bounds(1 - fraction, 1 + fraction)
