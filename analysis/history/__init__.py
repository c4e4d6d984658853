"""The same points over time: did this machine get slower? Sessions, and the values of each point in them.

A session has launches of an experiment that were measured together. It begins if a launch repeats one that the session
has already (as `FORCE=1` does), or if commit, driver, kernel, image or versions changed.

Training has images/s, the speedup over the smallest point, wall time and job time. Allreduce alone has the time of the
smallest message, which shows the latency, and the bus bandwidth of the largest.

Each point has a verdict: its newest launches are compared with those before, or with a reference.
`benchmarks/history_power.py` simulates how often the verdicts are wrong; docs/validation.md has the result.
"""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

import pandas as pd

from analysis import speedups
from analysis.compare import sets
from analysis.documents import counted
from analysis.experiments import allreduce
from analysis.stats import Number, student, verdict
from analysis.stats.verdict import Bounds, RatioVerdict, Verdict, ratio_verdict
from analysis.table import controls
from analysis.table.identity import SCALING, phrase
from train.record.record import RunRecord


@dataclass(frozen=True)
class Provenance:
    """The commit and software of a launch; "" for values that the record does not have."""

    commit: str  # seven digits, with + where files were changed
    driver: str  # of the GPUs
    kernel: str
    image: str  # digest
    versions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class LaunchInfo:
    """One record: where, when and with what."""

    path: str
    sha256: str
    started_at: str
    key: tuple[str, str, int]  # point, hash of the configuration, repeat
    machine: str
    provenance: Provenance
    details: dict[str, str]  # all provenance that `compare` shows if two sets differ


@dataclass(frozen=True)
class Session:
    """Launches that were measured together, and their rows of the local table."""

    number: int  # from 1, of this machine
    launches: tuple[LaunchInfo, ...]  # ascending by time
    table: pd.DataFrame

    @property
    def provenance(self) -> Provenance:
        """Return the provenance that all its launches share."""
        return self.launches[0].provenance

    @property
    def days(self) -> str:
        """Return the day, or the first and the last."""
        first, last = self.launches[0].started_at[:10], self.launches[-1].started_at[:10]
        return first if first == last else f"{first} to {last}"


def provenance(run: RunRecord) -> Provenance:
    """Return the commit and software of a run."""
    env = run.environment
    if env is None:
        return Provenance("", "", "", "", ())
    states = [host.state for host in env.hosts if host.state]
    drivers = sorted({gpu.driver for state in states for gpu in state.gpus})
    kernels = sorted({host.kernel for host in env.hosts})
    commit = (env.git_commit or "")[:7] + ("+" if env.git_dirty else "")
    image = (env.image_digest or "").removeprefix("sha256:")[:12]
    return Provenance(commit, ", ".join(drivers), ", ".join(kernels), image, tuple(sorted(env.versions.items())))


def launches(table: pd.DataFrame, records: Mapping[str, RunRecord]) -> list[LaunchInfo]:
    """Return the launches that a local table has rows of, ascending by time; records: by path."""
    machine = table.drop_duplicates("record").set_index("record")["machine"]
    launches = [_launch(str(path), records[str(path)], str(name)) for path, name in machine.items()]
    return sorted(launches, key=lambda launch: (launch.started_at, launch.path))


def _launch(path: str, run: RunRecord, machine: str) -> LaunchInfo:
    key = (run.point, run.config_hash, run.repeat)
    return LaunchInfo(path, run.sha256, run.started_at, key, machine, provenance(run), sets.provenance(run))


def _split(ordered: Iterable[LaunchInfo]) -> list[list[LaunchInfo]]:
    """Return the launches of one machine, ascending by time, split into sessions."""
    groups: list[list[LaunchInfo]] = []
    keys: set[tuple[str, str, int]] = set()
    for launch in ordered:
        if not groups or launch.key in keys or launch.provenance != groups[-1][0].provenance:
            groups.append([])
            keys = set()
        groups[-1].append(launch)
        keys.add(launch.key)
    return groups


def sessions(table: pd.DataFrame, records: Mapping[str, RunRecord]) -> dict[str, list[Session]]:
    """Return the sessions of an experiment by machine, ascending by time.

    table: its local rows. records: by path.
    """
    by_machine: dict[str, list[LaunchInfo]] = defaultdict(list)
    for launch in launches(table, records):
        by_machine[launch.machine].append(launch)

    def session(number: int, launches: list[LaunchInfo]) -> Session:
        rows = table[table["record"].isin([launch.path for launch in launches])]
        return Session(number, tuple(launches), controls.attach(rows))

    return {
        machine: [session(number, launches) for number, launches in enumerate(_split(ordered), 1)]
        for machine, ordered in by_machine.items()
    }


# Differences that two sessions always have, or that follow from others.
_ALWAYS = ("day", "environment.git_commit", "environment.variables.SLURM_", "environment.hosts.host",
           "environment.hosts.state.load", "environment.hosts.state.frequency_mhz",
           "environment.hosts.state.steal_fraction", "environment.hosts.state.gpus.clock_mhz")  # fmt: skip


def changed(before: Session, now: Session) -> list[tuple[str, str, str]]:
    """Return the differences of two sessions, without those that all have: name, before, now."""
    changes = sets.changes([a.details for a in before.launches], [a.details for a in now.launches])
    return [change for change in changes if not change[0].startswith(_ALWAYS)]


def since(sessions: Sequence[Session], day: str) -> list[Session]:
    """Return the sessions that began on a day or later, as 2026-11-01."""
    return [session for session in sessions if session.launches[0].started_at[:10] >= day]


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
    point: str  # the rest as text
    quantity: Quantity
    series: str  # a digest of the configuration and the machine
    machine: str


@dataclass
class Values:
    """One number per launch, by session number; and why a session is not valid as a scaling result."""

    by_session: dict[int, list[float]] = field(default_factory=dict)
    invalid: dict[int, str] = field(default_factory=dict)

    def on(self, numbers: Collection[int]) -> list[float]:
        """Return the values of some sessions."""
        return [value for session, values in self.by_session.items() if session in numbers for value in values]

    def why_invalid(self, numbers: Collection[int]) -> str:
        """Return why some sessions are not valid as scaling results; "" if all are valid."""
        return "; ".join(dict.fromkeys(why for session, why in self.invalid.items() if session in numbers))


def histories(sessions: Iterable[Session]) -> dict[Key, Values]:
    """Return the values of each point in the sessions of one machine."""
    histories: dict[Key, Values] = defaultdict(Values)
    for session in sessions:
        for measured in (_throughputs, _times, _allreduces):
            for key, values, why in measured(session.table):
                histories[key].by_session[session.number] = values
                if why:
                    histories[key].invalid[session.number] = why
    return dict(sorted(histories.items(), key=lambda item: item[0]))


# A point, its values, and why they are not valid as scaling results ("": they are).
PointValues = Iterator[tuple[Key, list[float], str]]


def _throughputs(table: pd.DataFrame) -> PointValues:
    """Yield a rate per launch of each point, and a speedup per launch if there is a smaller point."""
    rates = speedups.rates(table).dropna(subset="rate")
    for _, curve in rates.groupby(["model", "series"], sort=False):
        base = speedups.base_of(curve, rates)
        paired = speedups.paired(curve, "ranks", base)
        scales = set(curve["axis"]) <= set(SCALING)
        for _, point in curve.groupby(["ranks", "axis_value"], dropna=False, sort=False):
            why = _why_invalid(point)
            yield _key(point, "images_per_s"), _by_launch(point, "rate", statistics.harmonic_mean), why
            ranks = int(point["ranks"].iloc[0])
            is_base = base is None and ranks == curve["ranks"].min()  # its speedup is 1 by definition
            if scales and not is_base and (values := _speedups(paired, ranks)):
                yield _key(point, "speedup"), values, why


def _times(table: pd.DataFrame) -> PointValues:
    """Yield wall times and job times of the points that were measured in separate launches.

    A launch whose ranks changed, as in elastic training, has no time to compare.
    """
    by: dict[str, Quantity] = {"wall time": "wall_s", "job time": "job_s"}
    for name, quantity in by.items():
        launches = speedups.rates(table, name).dropna(subset="rate")
        for _, point in launches.groupby(["model", "series", "ranks", "axis_value"], dropna=False, sort=False):
            yield _key(point, quantity), _by_launch(point, "value", statistics.fmean), _why_invalid(point)


def _allreduces(table: pd.DataFrame) -> PointValues:
    """Yield the smallest message's time and the largest one's bandwidth of each point of allreduce alone."""
    for _, point in allreduce.rounds(table).groupby(["series", "ranks", "axis_value"], dropna=False, sort=False):
        sizes, why = point["message_bytes"], _why_invalid(point)
        smallest, largest = point[sizes.eq(sizes.min())], point[sizes.eq(sizes.max())]
        yield _message_key(smallest, "allreduce_s"), _by_launch(smallest, "time_s", statistics.fmean), why
        rates = _by_launch(largest, "rate", statistics.harmonic_mean)
        yield _message_key(largest, "bus_bandwidth_bytes_per_s"), rates, why


def _message_key(rows: pd.DataFrame, quantity: Quantity) -> Key:
    return _key(rows, quantity, allreduce.size_label(rows["message_bytes"].iloc[0]))


def _by_launch(point: pd.DataFrame, column: str, mean: Callable[[Sequence[float]], float]) -> list[float]:
    """Return one value per launch, over its rounds if it has some."""
    return [mean(rows[column].tolist()) for _, rows in point.groupby("record")]


def _why_invalid(point: pd.DataFrame) -> str:
    return str(controls.why_invalid(point).iloc[0])


def _speedups(paired: pd.DataFrame, ranks: int) -> list[float]:
    """Return the speedup of a point in each launch: the median over its rounds, or that of each repeat."""
    pairs = paired[paired["size"].eq(ranks) & paired["speedup"].notna()]
    if not pairs["launch"].ne("").any():
        return pairs["speedup"].tolist()
    return [statistics.median(ratios) for ratios in speedups.by_launch(pairs, "speedup")]


def _key(point: pd.DataFrame, quantity: Quantity, *more: str) -> Key:
    """Return the key of one point; `more`: further parts of its name."""
    first = point.iloc[0]
    has_value = first["axis"] not in ("", "nodes") and not pd.isna(first["axis_value"])
    along = phrase(first["axis"], first["axis_value"]) if has_value else ""
    parts = filter(None, [counted(first["nodes"], "node"), along, first["swept"], first["arm"], *more])
    return Key(
        first["experiment"], first["model"], int(first["ranks"]), ", ".join(parts), quantity, first["series"],
        first["machine"],
    )  # fmt: skip


_ENOUGH_LAUNCHES = 3  # on either side: they show how far launches differ


@dataclass(frozen=True)
class Change:
    """The values of a point before and now, and why they cannot be judged ("" where they can)."""

    key: Key
    before: tuple[float, ...]
    now: tuple[float, ...]
    older: tuple[tuple[float, ...], ...] = ()  # launches that only show how far launches scatter
    why_not: str = ""

    @property
    def groups(self) -> list[tuple[float, ...]]:
        """Return its values in groups, each of which scatters about its mean."""
        return [group for group in (self.before, self.now, *self.older) if len(group) > 1]


@dataclass(frozen=True)
class Row:
    """One point with its verdict. `ratio`: now over before; None where it is not known."""

    change: Change
    ratio: Number | None
    judged: Verdict | None
    curves: int = 0  # other curves whose launches show how far launches differ

    @property
    def verdict(self) -> RatioVerdict:
        """Return the name of the verdict; not decidable if it was not judged."""
        return ratio_verdict(self.judged, self.change.key.quantity in COSTS) if self.judged else "not decidable"

    @property
    def note(self) -> str:
        """Return why there is no verdict, unless it follows from the interval."""
        if self.judged and self.curves:
            few = min(len(self.change.before), len(self.change.now))
            others = counted(self.curves, "other curve")
            return f"{counted(few, 'launch')}: with the variance between launches of {others}"
        if self.change.why_not or self.judged:
            return self.change.why_not
        return "one launch before and one now: how far launches differ is not known"


def verdict_rows(changes: Sequence[Change], within: float) -> list[Row]:
    """Return each change with its verdict; all together are wrong at most 5 times in 100."""
    others = [_measured_alike(change, changes) for change in changes]
    ratios = {
        nth: mean_ratio(change.before, change.now, [*change.older, *(g for other in others[nth] for g in other.groups)])
        for nth, change in enumerate(changes)
        if change.before and change.now
    }
    decided = [nth for nth, ratio in ratios.items() if not changes[nth].why_not and ratio.has_interval]
    judged = dict(zip(decided, judge_ratios([ratios[nth] for nth in decided], within), strict=True))
    return [Row(change, ratios.get(nth), judged.get(nth), len(others[nth])) for nth, change in enumerate(changes)]


def _measured_alike(change: Change, changes: Sequence[Change]) -> list[Change]:
    """Return the changes of other curves on equally many ranks, if a side has too few launches to know the scatter."""
    if min(len(change.before), len(change.now)) >= _ENOUGH_LAUNCHES:
        return []
    same = [
        other
        for other in changes
        if other.key.model != change.key.model
        and replace(other.key, model="", series="") == replace(change.key, model="", series="")
    ]
    return [other for other in same if other.groups]


def newest_changes(histories: Mapping[Key, Values], sessions: Sequence[Session]) -> list[Change]:
    """Return each point in the newest session, compared with those before it with one provenance."""
    last, (*older, base) = sessions[-1].number, session_states(sessions[:-1]) or [[]]
    changes = []
    for key, values in histories.items():
        before, now = tuple(values.on(base)), tuple(values.on([last]))
        missing = "not measured in the newest session" if not now else "" if before else "not measured before it"
        scattered = tuple(tuple(values.on(state)) for state in older)
        changes.append(Change(key, before, now, scattered, missing or values.why_invalid([*base, last])))
    return changes


def session_states(sessions: Sequence[Session]) -> list[list[int]]:
    """Return session numbers in groups of neighbours with the same provenance.

    The newest session is compared with the last group: an older state of the machine, as before an update, does not
    show what changed since.
    """
    return [[s.number for s in alike] for _, alike in itertools.groupby(sessions, key=lambda s: s.provenance)]


def launch_mean(values: Sequence[float]) -> Number:
    """Return the mean over launches with Student's interval on the logarithm; one launch has no interval."""
    return student.on_logarithm(student.mean(values))


def mean_ratio(before: Sequence[float], now: Sequence[float], older: Sequence[Sequence[float]] = ()) -> Number:
    """Return mean(now) / mean(before) of values of launches, with its interval.

    Without older groups, and with two launches or more on both sides, it is Welch's interval, as `compare` shows for
    two sets. Otherwise the scatter is pooled about the mean of each group: before, now, and each of `older`. There is
    no interval with one launch in each group.
    """
    if not any(len(values) > 1 for values in older) and min(len(before), len(now)) > 1:
        return student.ratio_of_means(before, now)
    return student.pooled_ratio_of_means(before, now, older)


def judge_ratios(ratios: Sequence[Number], fraction: float) -> list[Verdict]:
    """Return the verdict on each ratio; all together are wrong at most 5 times in 100.

    Inside: its 90 % interval is within `fraction` of 1; outside: its whole 95 % interval is beyond.
    """
    return verdict.judge_all(ratios, Bounds(1 - fraction, 1 + fraction))
