"""Two sets of local records: their throughputs, point by point, and how their runs differ."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from analysis import TableError, json_values, metrics, speedups, verdicts
from analysis.metrics import Estimate
from analysis.study import Study, record_files
from analysis.table import controls
from analysis.verdicts import ALPHA, Limits, Uncertain, of_estimate, of_launches
from train.record.record import RunRecord

Said = Literal["B faster", "B slower", "no difference shown", "no interval", "not judged"]

# What no measurement depends on; each launch has an address of its own where its ranks meet.
_NOT_COMPARED = ("configuration.results", "configuration.tracking.", "configuration.launcher.timeout_s",
                 "environment.variables.HOROVOD_GLOO_RENDEZVOUS_", "environment.variables.TF_CONFIG")  # fmt: skip
_MOST_SHOWN = 6


@dataclass(frozen=True)
class Ratio:
    """One point in both sets: its rate in images/s or its speedup, n, and the ratio B / A with its 95 % interval.

    `by` says by which rate: throughput of the timed steps, wall time (from the broadcast on), job time. A rate is a
    mean over launches. A speedup is the median of the ratios within rounds, where the records have rounds. `p_value`:
    how often such a difference would come from chance, by Holm over all ratios that are judged. NaN where not known.
    """

    experiment: str
    point: str
    quantity: Literal["images_per_s", "speedup"]
    by: str
    a: float
    n_a: int
    b: float
    n_b: int
    ratio: float
    low: float
    high: float
    p_value: float
    said: Said
    note: str

    def as_json(self) -> dict[str, Any]:
        """The ratio for programs; docs/json.md has the schema."""
        level = None if math.isnan(self.low) else 1 - ALPHA
        n = min(self.n_a, self.n_b)
        sides = {
            side: {"value": value, "low": None, "high": None, "level": None, "n": count}
            for side, value, count in (("a", self.a, self.n_a), ("b", self.b, self.n_b))
        }
        return json_values.plain(
            {"experiment": self.experiment, "point": self.point, "quantity": self.quantity, "by": self.by}
            | sides
            | {"ratio": {"value": self.ratio, "low": self.low, "high": self.high, "level": level, "n": n}}
            | {"p_value": self.p_value, "verdict": self.said, "note": self.note}
        )


@dataclass(frozen=True)
class Difference:
    """Something in which the runs of A and those of B differ."""

    experiments: str
    what: str
    a: str
    b: str


@dataclass(frozen=True)
class Sets:
    """The comparison of two sets; `alone`: points without a counterpart, and those that cannot be paired."""

    ratios: list[Ratio]
    differences: list[Difference]
    alone: list[str]
    left_out: list[str]

    def as_json(self) -> dict[str, Any]:
        """Both sets for programs; docs/json.md has the schema."""
        made = [asdict(difference) for difference in self.differences]
        return {
            "ratios": [ratio.as_json() for ratio in self.ratios],
            "differences": made,
            "alone": self.alone,
            "left_out": self.left_out,
        }


@dataclass(frozen=True)
class _Arm:
    """What one record says of one point: its rates, and its speedups round by round where it was measured in rounds."""

    rates: dict[str, float]
    speedups: list[float]
    lost: str  # why it is no measurement of scaling


@dataclass(frozen=True)
class _Run:
    experiment: str
    point: str
    config_hash: str
    arm: _Arm
    making: dict[str, str]

    @property
    def rates(self) -> dict[str, float]:
        return self.arm.rates


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of nested values, named by their path; the elements of a list share the list's name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _flat(inner, name)
    else:
        yield name, "none" if value is None else str(value)


def making(run: RunRecord) -> dict[str, str]:
    """How a run was made, as flat names and values: configuration, environment, cores of each rank, day."""
    said: dict[str, set[str]] = defaultdict(set)
    made = {
        "configuration": run.config,
        "environment": asdict(run.environment) if run.environment else {},
        "cores bound to a rank": [len(rank.cores) // rank.workers for rank in run.ranks],
        "day": run.started_at[:10],
    }
    for name, value in _flat(made):
        if not name.startswith(_NOT_COMPARED):
            said[name].add(value)
    return {name: ", ".join(sorted(values)) for name, values in said.items()}


def _runs(place: Path) -> tuple[list[_Run], list[str]]:
    study = Study(*record_files(place))
    arms = _arms(study.local)
    runs = []
    for path in study.local["record"].unique():
        run = study.records[path]
        made = making(run)
        for name, arm in arms[path].items():
            point = f"{run.point}, {name}" if name else run.point
            runs.append(_Run(run.experiment, point, run.config_hash, arm, made))
    if not runs:
        reason = (
            f"no complete run ({len(study.left_out)} left out, {len(study.failed)} failed)"
            if place.exists()
            else "does not exist"
        )
        raise TableError(f"{place}: {reason}; give a folder of records, as A=results")
    return runs, [str(notice) for notice in (*study.left_out, *study.failed)]


_ARM = ["nodes", "batch_per_rank", "arm"]


def _arms(local: pd.DataFrame) -> dict[str, dict[str, _Arm]]:
    """What each record says of its point ("") or of each arm of a launch in rounds, by name; rates in images/s."""
    found: dict[str, dict[str, _Arm]] = {path: {} for path in local["record"].unique()}
    for by in speedups.BY:
        rates = speedups.rates(local, by).dropna(subset="rate")
        for _, of_arm in rates.groupby(["record", *_ARM], dropna=False):
            first = of_arm.iloc[0]
            words = [f"{first['nodes']} nodes", f"batch {first['batch_per_rank']}", *filter(None, [first["arm"]])]
            name = ", ".join(words) if of_arm["round"].notna().any() else ""
            lost = controls.why_lost(of_arm).iloc[0]
            arm = found[first["record"]].setdefault(name, _Arm({}, _speedups(of_arm, rates) if name else [], lost))
            arm.rates[by] = statistics.harmonic_mean(of_arm["rate"].tolist())
    return {path: of_arms or {"": _Arm({}, [], "")} for path, of_arms in found.items()}


def _speedups(of_arm: pd.DataFrame, rates: pd.DataFrame) -> list[float]:
    """The speedup of an arm in each round over the smallest arm with allreduce of its launch; [] for that arm."""
    of_launch = rates[rates["record"].eq(of_arm["record"].iloc[0])]
    measured = of_launch[of_launch["kind"].eq("measured")]
    base = measured[measured["ranks"].eq(measured["ranks"].min())]
    if base.empty or of_arm["ranks"].iloc[0] == base["ranks"].iloc[0]:
        return []
    found = speedups.paired(of_arm, "ranks", base).sort_values("turn")
    return found["speedup"].dropna().tolist()


def _configurations(runs: Sequence[_Run]) -> dict[tuple[str, str], dict[str, list[_Run]]]:
    found: dict[tuple[str, str], dict[str, list[_Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        found[run.experiment, run.point][run.config_hash].append(run)
    return found


def _pairs(a: Sequence[_Run], b: Sequence[_Run]) -> tuple[list[tuple[list[_Run], list[_Run]]], list[str]]:
    """The repeats of each point in both sets, and what cannot be paired.

    Runs of one configuration are paired; what then remains of a point is paired where each side has one configuration.
    """
    pairs, alone = [], []
    of_a, of_b = _configurations(a), _configurations(b)
    for point in [*of_a, *(point for point in of_b if point not in of_a)]:
        left, right = of_a.get(point, {}), of_b.get(point, {})
        same = [key for key in left if key in right]
        pairs += [(left[key], right[key]) for key in same]
        rest = [[runs for key, runs in side.items() if key not in same] for side in (left, right)]
        name = ", ".join(point)
        if len(rest[0]) == len(rest[1]) == 1:
            pairs.append((rest[0][0], rest[1][0]))
        elif rest[0] and rest[1]:
            alone.append(
                f"{name}: {len(rest[0])} other configurations in A, {len(rest[1])} in B: which belong together is not "
                "known; give folders of one configuration each"
            )
        elif rest[0] or rest[1]:
            side = "A" if rest[0] else "B"
            alone.append(f"{name}: in {side} only" + (", in this configuration" if same else ""))
    return pairs, alone


def ratio(a: Sequence[float], b: Sequence[float]) -> tuple[Estimate, float, float]:
    """mean(b) / mean(a) of two sets of rates, and the ends of Welch's 95 % interval (NaN: a side has one rate).

    Unpaired: repeat 3 of A has nothing in common with repeat 3 of B, they are independent launches. Welch, not
    Student's pooled error: two machines or settings need not have the same variance. Student's t, with the degrees of
    freedom of Welch and Satterthwaite (`metrics.ratio`), is taken on the logarithm of the ratio: otherwise few repeats
    with a large variance give a ratio below 0.
    """
    e = metrics.ratio(metrics.estimate(b), metrics.estimate(a))
    apart = math.exp(e.half_width / e.value) if math.isfinite(e.half_width) else math.nan
    return e, e.value / apart, e.value * apart


def of_rates(a: Sequence[float], b: Sequence[float]) -> Uncertain:
    """mean(b) / mean(a) with Welch's interval, as `ratio` has it."""
    e, *_ = ratio(a, b)
    spread = e.standard_error / e.value
    return of_estimate(Estimate(math.log(e.value), spread, e.degrees, e.n), log=True)


def ratio_of_medians(a: metrics.Launches, b: metrics.Launches) -> Uncertain:
    """median(b) / median(a) of two sets of launches, with an interval that assumes no distribution.

    From the low end of B over the high end of A to the opposite: each side's interval has half of the chance of an
    error, so that the ratio's holds the truth at least as often as it claims. NaN where one side has none at that
    level.
    """
    sides = [of_launches(metrics.median(of).value, of) for of in (a, b)]
    value = sides[1].value / sides[0].value

    def ends(level: float) -> tuple[float, float]:
        (a_low, a_high), (b_low, b_high) = (side.ends(1 - (1 - level) / 2) for side in sides)
        return b_low / a_high, b_high / a_low

    return Uncertain(value, ends, min(side.n for side in sides))


def _ratios(a: list[_Run], b: list[_Run]) -> Iterator[Ratio]:
    lost = [f"{name}: {run.arm.lost}" for name, runs in (("A", a), ("B", b)) for run in runs if run.arm.lost]
    note = "; ".join(dict.fromkeys(lost))
    for by in (by for by in speedups.BY if all(by in run.rates for run in (*a, *b))):
        rates = [[run.rates[by] for run in runs] for runs in (a, b)]
        yield _unless(note, _ratio(a[0], "images_per_s", by, rates, of_rates(*rates)))
    if all(run.arm.speedups for run in (*a, *b)):
        launches = [[run.arm.speedups for run in runs] for runs in (a, b)]
        medians = [[metrics.median(of).value] * sum(map(len, of)) for of in launches]
        yield _unless(note, _ratio(a[0], "speedup", "throughput", medians, ratio_of_medians(*launches)))


def _unless(note: str, one: Ratio) -> Ratio:
    """A ratio as it is, or with the note of why it is not judged."""
    return replace(one, p_value=math.nan, said="not judged", note=note) if note else one


def _ratio(
    of: _Run, quantity: Literal["images_per_s", "speedup"], by: str, sides: Sequence[Sequence[float]], found: Uncertain
) -> Ratio:
    """One ratio, before the correction for the others; `sides`: the values of A and of B."""
    (a, b), (n_a, n_b) = (statistics.fmean(values) for values in sides), (len(values) for values in sides)
    verdict, p = verdicts.p_value(found, Limits(1.0, 1.0))
    p = p if verdict == "contradicted" else 1.0
    said: Said = "no difference shown"
    if math.isnan(found.low):
        p, said = math.nan, "no interval"
    return Ratio(of.experiment, of.point, quantity, by, a, n_a, b, n_b, found.value, found.low, found.high, p, said, "")


def _together(ratios: Sequence[Ratio]) -> list[Ratio]:
    """The ratios with the verdicts that stay when so many are made at once (Holm)."""
    judged = [nth for nth, one in enumerate(ratios) if not math.isnan(one.p_value)]
    found = [*ratios]
    for nth, p in zip(judged, verdicts.adjust([ratios[nth].p_value for nth in judged]), strict=True):
        faster: Said = "B faster" if ratios[nth].ratio > 1 else "B slower"
        found[nth] = replace(ratios[nth], p_value=p, said=faster if p <= ALPHA else "no difference shown")
    return found


def values(runs: Iterable[Mapping[str, str]], name: str) -> str:
    """The values that runs have under one name of `making`: each once, or how many there are."""
    found = {run.get(name, "none") for run in runs}
    if len(found) > _MOST_SHOWN:
        return f"{len(found)} values"
    return " | ".join(sorted(found, key=lambda value: (not value.isdigit(), int(value) if value.isdigit() else value)))


def changes(a: Sequence[Mapping[str, str]], b: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str, str]]:
    """In what two sets of runs differ, from what `making` says of each: the name, and the values of either side."""
    for name in dict.fromkeys(name for runs in (a, b) for run in runs for name in run):
        left, right = ({run.get(name, "none") for run in runs} for runs in (a, b))
        if left != right:
            yield name, values(a, name), values(b, name)


def differences(a: Sequence[_Run], b: Sequence[_Run]) -> list[Difference]:
    """In what the runs of two sets differ, each once, with the experiments that it holds for."""
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for experiment in dict.fromkeys(run.experiment for run in a):
        sides = [[run.making for run in runs if run.experiment == experiment] for runs in (a, b)]
        for change in changes(*sides):
            found[change].append(experiment)
    return [Difference(", ".join(experiments), *key) for key, experiments in found.items()]


def compare(a: Path, b: Path) -> Sets:
    """The records in the folder (or file) `a` against those in `b`. Raises TableError where one has no complete run."""
    (runs_a, left_a), (runs_b, left_b) = _runs(a), _runs(b)
    pairs, alone = _pairs(runs_a, runs_b)
    made_alike = [[run for pair in pairs for run in pair[side]] for side in (0, 1)]
    return Sets(
        _together([one for pair in pairs for one in _ratios(*pair)]),
        differences(*made_alike),
        alone,
        [f"A: {line}" for line in left_a] + [f"B: {line}" for line in left_b],
    )
