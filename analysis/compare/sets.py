"""Two sets of local records or users' tables: their throughputs, point by point, and the differences of their runs."""

import math
import statistics
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd

from analysis import TableError, speedups
from analysis.compare.published import holm_corrected
from analysis.curves import ranks_in_words
from analysis.documents import Document, NumberField, PValue, about, counted, filled
from analysis.speedups import By
from analysis.stats import Number, repeats, unknown
from analysis.stats.student import pooled_ratio_of_means, ratio_of_means
from analysis.stats.verdict import Bounds, RatioVerdict, Verdict, leaning, ratio_verdict
from analysis.study import Study, record_files
from analysis.table import controls
from analysis.user_table import table as user_table
from analysis.user_table.headers import TEXT
from analysis.user_table.rates import rates
from train.record.intervals import launch_spread
from train.record.record import RECORD_NAME, RunRecord

# Keys on which no measurement depends, and the addresses of the ranks, which differ in each launch.
_NOT_COMPARED = ("configuration.results", "configuration.tracking.", "configuration.launcher.timeout_s",
                 "environment.variables.HOROVOD_GLOO_RENDEZVOUS_", "environment.variables.TF_CONFIG")  # fmt: skip
_MOST_SHOWN = 6
_WORK = "rates count"  # in the provenance of a run of a user's table
_ENOUGH_LAUNCHES = 3  # of a set, to estimate from them alone how much they differ


Quantity = Literal["images_per_s", "speedup"]


# A rate is a mean over launches. A speedup is the median of the ratios within rounds, if the records have rounds.
class SetRatio(Document):
    """A point that both sets have."""

    experiment: str
    point: str
    quantity: Quantity
    by: Annotated[By, about("by which rate")]
    a: NumberField
    b: NumberField
    ratio: Annotated[NumberField, about("B / A")]
    p_value: PValue
    verdict: Annotated[RatioVerdict, about("on B; of A and B alike that is not decidable, as no margin is given")]
    note: Annotated[str, about("why it is not judged, or where the spread between launches is from")]


@dataclass(frozen=True)
class Difference:
    """A setting in which the runs of A and B differ."""

    experiments: Annotated[str, about("that it holds for")]
    what: Annotated[str, about("the name of what differs")]
    a: str
    b: str


class SetComparisons(Document):
    """Two sets of records, compared."""

    ratios: Annotated[Sequence[SetRatio], about("each point that both have")]
    differences: Annotated[Sequence[Difference], about("in what the runs of A and B differ")]
    alone: Annotated[Sequence[str], about("points of one set only, and those that cannot be paired")]
    left_out: Annotated[Sequence[str], about("records that are not trusted or failed, and why")]


@dataclass(frozen=True)
class _Arm:
    """One point of a record: its rates and, for a launch in rounds, its speedup in each round."""

    rates: dict[str, float]
    speedups: list[float]
    invalid: str  # why it is not valid as a scaling result
    ranks: int = 0  # of a point with allreduce


@dataclass(frozen=True)
class _Run:
    experiment: str
    point: str
    config_hash: str
    arm: _Arm
    provenance: dict[str, str]
    record: str = ""  # its checksum; "": a row of a table

    @property
    def measured_alike(self) -> tuple[str, ...]:
        """The experiment and machine of a run: launches that share them scatter alike."""
        machine = (self.provenance.get(f"environment.hosts.{name}", "") for name in ("cpu_model", "cores"))
        return self.experiment, *machine


def _flat(value: Any, name: str = "") -> Iterator[tuple[str, str]]:
    """Yield the leaves of nested values with their path; the elements of a list share its name."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else str(key))
    elif isinstance(value, list):
        for inner in value:
            yield from _flat(inner, name)
    else:
        yield name, "none" if value is None else str(value)


def provenance(run: RunRecord) -> dict[str, str]:
    """Return the provenance of a run as flat names and values: configuration, environment, cores per rank, day."""
    values: dict[str, set[str]] = defaultdict(set)
    content = {
        "configuration": run.config,
        "environment": asdict(run.environment) if run.environment else {},
        "cores bound to a rank": [len(rank.cores) // rank.workers for rank in run.ranks],
        "day": run.started_at[:10],
    }
    for name, value in _flat(content):
        if not name.startswith(_NOT_COMPARED):
            values[name].add(value)
    return {name: ", ".join(sorted(values)) for name, values in values.items()}


def _runs(path: Path, columns: str) -> tuple[list[_Run], list[str]]:
    """Return the runs in a folder of records, in a record file or in a user's table, and notes on omissions."""
    if (path.is_file() and path.name != RECORD_NAME) or (
        path.is_dir() and any(path.iterdir()) and not record_files(path)
    ):
        return _table_runs(path, columns)
    study = Study(*record_files(path))
    arms = _arms(study.local)
    runs = []
    for record_path in study.local["record"].unique():
        run = study.records[record_path]
        values = provenance(run)
        for name, arm in arms[record_path].items():
            point = f"{run.point}, {name}" if name else run.point
            runs.append(_Run(run.experiment, point, run.config_hash, arm, values, run.sha256))
    if not runs:
        reason = f"no complete run ({len(study.left_out)} left out, {len(study.failed)} failed)"
        reason = reason if path.exists() else "does not exist"
        raise TableError(f"{path}: {reason}; give a folder of records, as A=results")
    return runs, [str(notice) for notice in (*study.left_out, *study.failed)]


def _table_runs(path: Path, columns: str) -> tuple[list[_Run], list[str]]:
    """Return the rows of a user's table as runs; rows of one model, setting, number of ranks and batch are repeats."""
    table = user_table.read(path, columns)
    if table.published is not None:
        raise TableError(f"{path}: a tidy table of published numbers; give a table with one row a run, or records")
    runs, texts = [], [name for name in TEXT if name in table.runs]
    for (_, run), (rate, work) in zip(table.runs.iterrows(), rates(table.runs).to_numpy(), strict=True):
        if not rate > 0:
            continue
        batch = run.get("batch_per_rank", math.nan)
        point = ranks_in_words(float(run["ranks"])) + ("" if pd.isna(batch) else f", batch {batch:g}")
        setting = " ".join(str(run[name]) for name in ("model", "setting") if name in texts)
        values = {name: str(run[name]) for name in texts}
        values[_WORK] = {"samples": "images", "": "speedups"}.get(work, work)
        by = {"throughput": float(rate)}
        by |= {name: 1 / run[time] for name, time in speedups.TIMES.items() if run.get(time, math.nan) > 0}
        runs.append(_Run(setting or "table", point, "", _Arm(by, [], ""), values))
    return runs, [*table.interpretation, *table.notes]


_ARM = ["nodes", "batch_per_rank", "arm"]


def _arms(local: pd.DataFrame) -> dict[str, dict[str, _Arm]]:
    """Return the point ("") of each record, or the arms of a launch in rounds by name; rates in images/s."""
    arms: dict[str, dict[str, _Arm]] = {path: {} for path in local["record"].unique()}
    in_rounds = {*local.loc[local["round"].notna(), "record"]}
    for by in speedups.BY:
        rates = speedups.rates(local, by).dropna(subset="rate")
        for _, rows in rates.groupby(["record", *_ARM], dropna=False):
            first = rows.iloc[0]
            parts = [f"{first['nodes']} nodes", f"batch {first['batch_per_rank']}", *filter(None, [first["arm"]])]
            name = ", ".join(parts) if first["record"] in in_rounds else ""
            invalid = controls.why_invalid(rows).iloc[0]
            ranks = int(first["ranks"]) if first["kind"] == "measured" else 0
            ratios = _speedups(rows, rates) if name else []
            arm = arms[first["record"]].setdefault(name, _Arm({}, ratios, invalid, ranks))
            arm.rates[by] = statistics.harmonic_mean(rows["rate"].tolist())
    return {path: by_name or {"": _Arm({}, [], "")} for path, by_name in arms.items()}


def _speedups(arm_rates: pd.DataFrame, rates: pd.DataFrame) -> list[float]:
    """Return the speedup of an arm in each round over the smallest arm with allreduce; [] for that arm."""
    launch_rates = rates[rates["record"].eq(arm_rates["record"].iloc[0])]
    measured = launch_rates[launch_rates["kind"].eq("measured")]
    base = measured[measured["ranks"].eq(measured["ranks"].min())]
    if base.empty or arm_rates["ranks"].iloc[0] == base["ranks"].iloc[0]:
        return []
    pairs = speedups.paired(arm_rates, "ranks", base).sort_values("turn")
    return pairs["speedup"].dropna().tolist()


def _configurations(runs: Sequence[_Run]) -> dict[tuple[str, str], dict[str, list[_Run]]]:
    configurations: dict[tuple[str, str], dict[str, list[_Run]]] = defaultdict(lambda: defaultdict(list))
    for run in runs:
        configurations[run.experiment, run.point][run.config_hash].append(run)
    return configurations


def _pairs(a: Sequence[_Run], b: Sequence[_Run]) -> tuple[list[tuple[list[_Run], list[_Run]]], list[str]]:
    """Return the repeats of each point in both sets, and lines for points that cannot be paired.

    Runs of one configuration are paired. Other runs of a point are paired if each set has one configuration of it.
    """
    pairs, alone = [], []
    points_a, points_b = _configurations(a), _configurations(b)
    for point in [*points_a, *(point for point in points_b if point not in points_a)]:
        left, right = points_a.get(point, {}), points_b.get(point, {})
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


Scatter = Mapping[tuple[str, ...], "_Launches"]  # by `_Run.measured_alike`


@dataclass
class _Launches:
    """The values of launches measured alike, by set of repeats: speedups of largest points, and rates with a hash."""

    speedups: list[list[list[float]]] = field(default_factory=list)
    rates: dict[str, list[tuple[str, list[float]]]] = field(default_factory=lambda: defaultdict(list))  # by `by`


def _scatter(*sides: Sequence[_Run]) -> Scatter:
    """Return the values of the largest point of each curve in each set: points of one launch are not independent."""
    scatter: dict[tuple[str, ...], _Launches] = defaultdict(_Launches)
    for side in sides:
        curves: dict[tuple[object, ...], list[_Run]] = defaultdict(list)
        for run in side:
            if run.arm.ranks:
                curves[(*run.measured_alike, run.config_hash, run.arm.ranks)].append(run)
        largest = {key[:-1]: runs for key, runs in sorted(curves.items(), key=lambda item: item[1][0].arm.ranks)}
        for runs in largest.values():
            alike = scatter[runs[0].measured_alike]
            alike.speedups.append([run.arm.speedups for run in runs])
            for by in runs[0].arm.rates:
                values = [run.arm.rates[by] for run in runs if by in run.arm.rates]
                alike.rates[by].append((runs[0].config_hash, values))
    return scatter


def _ratios(a: list[_Run], b: list[_Run], scatter: Scatter) -> Iterator[tuple[SetRatio, Verdict | None]]:
    """Return the ratios of one point; scatter: of all launches of both sets."""
    alike = [scatter.get(runs[0].measured_alike, _Launches()) for runs in (a, b)]
    few = min(len(a), len(b))
    remark = f"{counted(few, 'launch')}: with the variance between launches of all curves of this experiment"
    remark = remark if few < _ENOUGH_LAUNCHES else ""
    invalid = [f"{name}: {run.arm.invalid}" for name, runs in (("A", a), ("B", b)) for run in runs if run.arm.invalid]
    note = "; ".join(dict.fromkeys(invalid))
    for by in (by for by in speedups.BY if all(by in run.arm.rates for run in (*a, *b))):
        rates_a, rates_b = ([run.arm.rates[by] for run in runs] for runs in (a, b))
        means = [unknown(statistics.fmean(values), len(values)) for values in (rates_a, rates_b)]
        configurations = {run.config_hash for run in (*a, *b)}
        others = [values for hash_, values in alike[0].rates[by] if hash_ not in configurations] if remark else []
        ratio = pooled_ratio_of_means(rates_a, rates_b, others) if others else ratio_of_means(rates_a, rates_b)
        yield _ratio(a[0], "images_per_s", by, means, ratio, note, remark)
    if all(run.arm.speedups for run in (*a, *b)):
        launches_a, launches_b = ([run.arm.speedups for run in runs] for runs in (a, b))
        medians = [unknown(median.value, median.n) for median in map(repeats.median, (launches_a, launches_b))]
        spreads = [launch_spread(launches.speedups) for launches in alike]
        ratio = repeats.ratio_of_medians(launches_a, launches_b, *spreads)
        yield _ratio(a[0], "speedup", "throughput", medians, ratio, note, remark)


def _ratio(
    run: _Run, quantity: Quantity, by: By, sides: Sequence[Number], ratio: Number, invalid: str, remark: str
) -> tuple[SetRatio, Verdict | None]:
    """Return one ratio, and the verdict on it, which is not corrected for the others.

    sides: the values of A and B. invalid: why it is not judged.
    """
    note = invalid or (remark if ratio.has_interval else "no interval")
    if not invalid and ratio.variation == "between rounds":
        invalid = note = "one launch on a side: how far launches differ is not known"
    judged = leaning(ratio, Bounds(1.0, 1.0)) if ratio.has_interval and not invalid else None
    if judged and judged.outcome != "outside":  # an equality is not shown
        judged = Verdict("undecided", "across a bound", p=1.0)
    numbers = {"a": sides[0], "b": sides[1], "ratio": ratio, "p_value": None}
    return filled(SetRatio, run, quantity=quantity, by=by, **numbers, verdict="not decidable", note=note), judged


def values(runs: Iterable[Mapping[str, str]], name: str) -> str:
    """Return the distinct values of one name of `provenance`, or how many there are."""
    distinct = {run.get(name, "none") for run in runs}
    if len(distinct) > _MOST_SHOWN:
        return f"{len(distinct)} values"
    numbers = sorted((value for value in distinct if value.isdigit()), key=int)
    return " | ".join([*numbers, *sorted(distinct - {*numbers})])


def changes(a: Sequence[Mapping[str, str]], b: Sequence[Mapping[str, str]]) -> Iterator[tuple[str, str, str]]:
    """Yield each name of `provenance` in which two sets of runs differ, with the values of each set."""
    for name in dict.fromkeys(name for runs in (a, b) for run in runs for name in run):
        left, right = ({run.get(name, "none") for run in runs} for runs in (a, b))
        if left != right:
            yield name, values(a, name), values(b, name)


def differences(a: Sequence[_Run], b: Sequence[_Run]) -> list[Difference]:
    """Return the differences of two sets of runs, each once, with the experiments that have it."""
    experiments_by_change: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for experiment in dict.fromkeys(run.experiment for run in a):
        sides = [[run.provenance for run in runs if run.experiment == experiment] for runs in (a, b)]
        for change in changes(*sides):
            experiments_by_change[change].append(experiment)
    return [Difference(", ".join(experiments), *key) for key, experiments in experiments_by_change.items()]


def compare(a: Path, b: Path, columns: str = "") -> SetComparisons:
    """Compare the records, or the user's table, in the folder or file `a` with those in `b`.

    columns: the meaning of headers of tables (COLUMNS). Raises TableError without a complete run.
    """
    (runs_a, skipped_a), (runs_b, skipped_b) = _runs(a, columns), _runs(b, columns)
    records_a, records_b = ({run.record for run in runs} - {""} for runs in (runs_a, runs_b))
    both = counted(len(records_a & records_b), "record")
    if records_a == records_b:
        same = f"A and B hold the same {both}: they cannot differ" if records_a else ""
    else:
        same = f"{both} are in both: A and B are not independent" if records_a & records_b else ""
    works = [{run.provenance.get(_WORK, "images") for run in runs} for runs in (runs_a, runs_b)]
    if works[0] != works[1]:
        units = [" and ".join(sorted(work)) for work in works]
        raise TableError(f"{b}: its rates count {units[1]}, those of {a} {units[0]}: give tables of one unit")
    scatter = _scatter(runs_a, runs_b)
    pairs, alone = _pairs(runs_a, runs_b)
    paired = [[run for pair in pairs for run in pair[side]] for side in (0, 1)]
    return SetComparisons(
        ratios=holm_corrected([ratio for pair in pairs for ratio in _ratios(*pair, scatter)], ratio_verdict),
        differences=differences(*paired),
        alone=alone,
        left_out=[
            *([same] if same else []),
            *(f"A: {line}" for line in skipped_a),
            *(f"B: {line}" for line in skipped_b),
        ],
    )
