"""Two sets of local records: their throughputs, point by point, and how their runs differ."""

from __future__ import annotations

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from analysis import TableError, metrics
from analysis.metrics import Estimate
from analysis.table import loading
from train.record import record
from train.record.record import RunRecord

Said = Literal["B faster", "B slower", "no difference shown", "no interval"]

# What a configuration says that no measurement depends on.
_NOT_COMPARED = ("configuration.results", "configuration.tracking.", "configuration.launcher.timeout_s")
_MOST_SHOWN = 6


@dataclass(frozen=True)
class Ratio:
    """One point in both sets: rates in images/s as mean, n, and the ratio B / A with its 95 % interval (NaN: none).

    `by` says which rate: throughput of the timed steps, wall time (from the broadcast on), job time.
    """

    experiment: str
    point: str
    by: str
    a: float
    n_a: int
    b: float
    n_b: int
    ratio: float
    low: float
    high: float
    said: Said
    note: str


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


@dataclass(frozen=True)
class _Run:
    experiment: str
    point: str
    config_hash: str
    shared: bool
    rates: dict[str, float]
    making: dict[str, str]


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
        "cores bound to a rank": [len(rank.cores) for rank in run.ranks],
        "day": run.started_at[:10],
    }
    for name, value in _flat(made):
        if not name.startswith(_NOT_COMPARED):
            said[name].add(value)
    return {name: ", ".join(sorted(values)) for name, values in said.items()}


def _runs(place: Path) -> tuple[list[_Run], list[str]]:
    local = loading.local(*([place] if place.is_file() else sorted(place.rglob(record.RECORD_NAME))))
    rates = _rates(local.table)
    runs = []
    for path in local.table["record"].unique():
        run = record.load(Path(path))
        made = making(run)
        for arm, of_arm in rates[path].items():
            point = f"{run.point}, {arm}" if arm else run.point
            runs.append(_Run(run.experiment, point, run.config_hash, run.cores_shared, of_arm, made))
    if not runs:
        reason = (
            f"no complete run ({len(local.left_out)} left out, {len(local.failed)} failed)"
            if place.exists()
            else "does not exist"
        )
        raise TableError(f"{place}: {reason}; give a folder of records, as A=results")
    return runs, [str(notice) for notice in (*local.left_out, *local.failed)]


def _rates(local: pd.DataFrame) -> dict[str, dict[str, dict[str, float]]]:
    """The rates of each record: arm of a launch in rounds ("" else) -> which rate -> its harmonic mean, in images/s."""
    found: dict[str, dict[str, dict[str, float]]] = {path: {} for path in local["record"].unique()}
    for by in metrics.BY:
        rates = metrics.rates(local, by).dropna(subset="rate")
        for _, of_arm in rates.groupby(["record", "nodes", "batch_per_rank", "arm"], dropna=False):
            first = of_arm.iloc[0]
            words = [f"{first['nodes']} nodes", f"batch {first['batch_per_rank']}", *filter(None, [first["arm"]])]
            name = ", ".join(words) if of_arm["round"].notna().any() else ""
            found[first["record"]].setdefault(name, {})[by] = statistics.harmonic_mean(of_arm["rate"].tolist())
    return {path: of_arms or {"": {}} for path, of_arms in found.items()}


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


def _said(low: float, high: float) -> Said:
    if math.isnan(low):
        return "no interval"
    return "B faster" if low > 1 else "B slower" if high < 1 else "no difference shown"


def _ratios(a: list[_Run], b: list[_Run]) -> Iterator[Ratio]:
    shared = [name for name, runs in (("A", a), ("B", b)) if any(run.shared for run in runs)]
    note = f"cores shared in {' and '.join(shared)}" if shared else ""
    for by in (by for by in metrics.BY if all(by in run.rates for run in (*a, *b))):
        rates = [[run.rates[by] for run in runs] for runs in (a, b)]
        means = [metrics.estimate(values) for values in rates]
        e, low, high = ratio(*rates)
        yield Ratio(
            a[0].experiment, a[0].point, by, means[0].value, means[0].n, means[1].value, means[1].n, e.value, low, high,
            _said(low, high), note,
        )  # fmt: skip


def values(runs: Iterable[Mapping[str, str]], name: str) -> str:
    """The values that runs have under one name of `making`: each once, or how many there are."""
    found = {run.get(name, "none") for run in runs}
    if len(found) > _MOST_SHOWN:
        return f"{len(found)} values"
    return " | ".join(sorted(found, key=lambda value: (not value.isdigit(), int(value) if value.isdigit() else value)))


def differences(a: Sequence[_Run], b: Sequence[_Run]) -> list[Difference]:
    """In what the runs of two sets differ, each once, with the experiments that it holds for."""
    found: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for experiment in dict.fromkeys(run.experiment for run in a):
        sides = [[run for run in runs if run.experiment == experiment] for runs in (a, b)]
        names = dict.fromkeys(name for runs in sides for run in runs for name in run.making)
        for name in names:
            left, right = ({run.making.get(name, "none") for run in runs} for runs in sides)
            if left != right:
                a_values, b_values = (values([run.making for run in runs], name) for runs in sides)
                found[name, a_values, b_values].append(experiment)
    return [Difference(", ".join(experiments), *key) for key, experiments in found.items()]


def compare(a: Path, b: Path) -> Sets:
    """The records in the folder (or file) `a` against those in `b`. Raises TableError where one has no complete run."""
    (runs_a, left_a), (runs_b, left_b) = _runs(a), _runs(b)
    pairs, alone = _pairs(runs_a, runs_b)
    made_alike = [[run for pair in pairs for run in pair[side]] for side in (0, 1)]
    return Sets(
        [one for pair in pairs for one in _ratios(*pair)],
        differences(*made_alike),
        alone,
        [f"A: {line}" for line in left_a] + [f"B: {line}" for line in left_b],
    )
