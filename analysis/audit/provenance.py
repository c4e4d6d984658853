"""Rules on the origin of records: order, folders, copies and gaps."""

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterator
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.audit.findings import EXPERIMENT_RULES, RECORD_RULES, Finding, Severity, finding, rule
from analysis.audit.launches import Launch, Scatter, grouped, plan_of, scatter
from analysis.thresholds import limit
from train.record import rounds
from train.record.record import RECORD_NAME, RunRecord

_RESOLUTION_S = 1.0  # of started_at
_RUNS_REMOVED = "It was removed, or its launcher was killed. Nobody knows how the runs that remain were chosen."
_ALL_LAUNCHES = "a record of each launch, also of one that failed"
_RUN = re.compile(r"r(\d{1,6})(?:\D(\d{1,6}))?")  # the folder of a run: repeat, generation


@rule(RECORD_RULES)
def order_of_rounds(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report arms that did not run in the order that is drawn from the seed and the number of the repeat.

    Rounds that were dropped and renumbered, moved, or taken from another launch change that order. Arms that run all
    together have no order.
    """
    by_round: dict[int, list[int]] = defaultdict(list)
    for rank in run.ranks[:1]:
        for window in rank.windows:
            by_round[window.round].append(window.arm)
    arms = run.config.get("rounds") or []
    if not by_round or run.config.get("rank_groups_at_once"):
        return
    taken = [index for index, arm in enumerate(arms) if arm["name"] not in run.arms_left_out]
    on_rank_0 = {index for index in taken if 0 in rounds.ranks_of(run.config, index)}
    drawn = islice(rounds.orders(run.config["seed"], run.repeat, len(taken)), 1 + max(by_round))
    expected = [[taken[n] for n in order if taken[n] in on_rank_0] for order in drawn]
    wrong = [number for number, order in by_round.items() if order != expected[number][: len(order)]]
    if wrong:
        first, right = (", ".join(map(str, order)) for order in (by_round[wrong[0]], expected[wrong[0]]))
        stated = (
            f"{len(wrong)} of {len(by_round)} rounds, the first of them round {wrong[0]}: arms in the order {first}"
        )
        follows = f"{right}, which seed {run.config['seed']} and repeat {run.repeat} give"
        meaning = "Rounds were dropped, moved or taken from another launch, or the seed or the repeat was changed."
        yield finding(path, "serious", stated, follows, None, meaning)


@rule(RECORD_RULES)
def misplaced_record(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a record whose experiment, point, hash of the configuration or repeat is not that of its folder."""
    parts = Path(path).parts
    if len(parts) < 5 or parts[-1] != RECORD_NAME or not (folder := _RUN.fullmatch(parts[-2])):
        return
    both = {
        "experiment": (run.experiment, parts[-5] if len(parts) > 5 else run.experiment),
        "point": (run.point, parts[-4]),
        "hash of the configuration": (run.config_hash[:8], parts[-3]),
        "repeat": (str(run.repeat), folder[1]),
    }
    for name, (stated, in_path) in [item for item in both.items() if item[1][0] != item[1][1]][:1]:
        meaning = "The record was moved, copied or edited after it was written."
        yield finding(path, "warning", f"{name} {stated} in the record", f"{in_path} in its path", None, meaning)


@rule(EXPERIMENT_RULES)
def copied_scatter(runs: list[Launch]) -> Iterator[Finding]:
    """Report two launches whose steps, or windows, scatter alike, one by one: one was made from the other.

    Times that were copied and changed a little, or all by one factor, agree in no digit. But no two launches share how
    much longer or shorter each step, or window, is than the one before. A change of each by itself weakens that, and
    does not remove it.
    """
    named: set[str] = set()
    by_point = grouped(runs, lambda run: (run.point, run.config_hash))
    as_long = grouped(runs, lambda run: (run.in_rounds, len(run.scatters[0])))
    for launches in [*by_point.values(), *as_long.values()]:
        for quantity, scatters in (
            ("steps", [run.scatters[0] for run in launches]),
            ("windows", [run.scatters[1] for run in launches]),
        ):
            if pair := _alike(scatters):
                *positions, compared, r = pair
                first, second = sorted((launches[n] for n in positions), key=lambda run: (run.repeat, run.path))
                stated = f"{compared} differences of {quantity} that scatter as those of {first.path}"
                meaning = "No two launches have that in common: one of them was made from the other."
                if second.path not in named:
                    yield finding(second.path, "serious", stated, f"no correlation, not {r:.2f}", None, meaning)
                named.add(second.path)


@rule(RECORD_RULES)
def copied_rounds(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report two windows of an arm, or two whole rounds, whose steps scatter alike, one by one, on rank 0."""
    windows = run.ranks[0].windows if run.ranks else []
    by_arm: dict[int, list[tuple[int, Scatter]]] = defaultdict(list)
    for window in windows:
        by_arm[window.arm].append((window.round, scatter(window.step_times_s)))
    arms = [dict(scatters) for scatters in by_arm.values()]
    whole = [
        (number, np.concatenate([arm[number] for arm in arms]))
        for number in sorted({window.round for window in windows})
        if all(number in arm for arm in arms)
    ]
    for name, scatters in [*((f"arm {arm}", scatters) for arm, scatters in by_arm.items()), ("all arms", whole)]:
        if pair := _alike([values for _, values in scatters], within=True):
            *positions, compared, r = pair
            first, second = sorted(scatters[position][0] for position in positions)
            stated = f"round {second}, {name}: {compared} steps that scatter as those of round {first}"
            meaning = "No two rounds have that in common: one of them was made from the other."
            yield finding(path, "serious", stated, f"no correlation, not {r:.2f}", None, meaning)
            return


def _alike(scatters: list[Scatter], within: bool = False) -> tuple[int, int, int, float] | None:
    """Return the two lists whose Spearman correlation is too large for chance; None for none, or too few values.

    Returns their positions, how many values were compared, and the correlation. Fisher's transformation makes it
    normal, with a variance of 1.06 / (n - 3) (Fieller et al. 1957). `within`: all are of one launch, whose windows
    share their median as a common trend.
    """
    from scipy.stats import rankdata  # it takes longer to import than most commands to run

    usable = [position for position, differences in enumerate(scatters) if len(differences) >= limit("alike_values")]
    if len(usable) < 2:
        return None
    shortest = min(len(scatters[position]) for position in usable)
    values = np.stack([scatters[position][:shortest] for position in usable])
    if within and len(usable) > 3:
        values = (values - np.median(values, axis=0)).astype(np.float32)
    ranks = rankdata(values, axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    sizes = np.linalg.norm(ranks, axis=1)
    ranks /= np.where(sizes > 0, sizes, 1.0)[:, None]
    correlations: NDArray[np.float64] = ranks @ ranks.T
    np.fill_diagonal(correlations, 0.0)
    row, column = np.unravel_index(int(np.argmax(correlations)), correlations.shape)
    r = float(correlations[row, column])
    deviations = math.atanh(min(r, 1 - 1e-9)) * math.sqrt((shortest - 3) / 1.06)
    if deviations < limit("alike_deviations"):
        return None
    return usable[int(row)], usable[int(column)], shortest, r


@rule(EXPERIMENT_RULES)
def runs_at_once(runs: list[Launch]) -> Iterator[Finding]:
    """Report two launches on the same cores at the same time: they disturbed each other, or a time of them is wrong."""
    began = sorted((run.began_at, run.path, run) for run in runs if run.began_at is not None and run.order)
    for (first_s, _, first), (second_s, _, second) in pairwise(began):
        early_s = first_s + first.job_s - second_s
        together = early_s > _RESOLUTION_S + limit("clock_skew_s")
        if together and first.machine == second.machine and first.cores & second.cores:
            stated = f"began {early_s:.0f} s before the end of {first.path}"
            follows = "one launch after the other on the same cores"
            meaning = (
                "Launches that share cores disturb each other. If they ran one after the other, a time was changed."
            )
            yield finding(second.path, "warning", stated, follows, None, meaning)
            return


def _plans(runs: list[Launch]) -> list[dict[int, Launch]]:
    """Return the launches of each plan by their position in it, in order.

    Plans in which two launches have one position are left out (they are two plans), and so are arms that compete:
    those significantly slower are not launched.
    """
    planned = [run for run in runs if run.order and not run.compete and len(Path(run.path).parts) > 4]
    plans = grouped(planned, lambda run: (Path(run.path).parents[3], plan_of(run))).values()
    by_position = [{run.order.position: run for run in launches if run.order} for launches in plans]
    whole = [plan for plan, launches in zip(by_position, plans, strict=True) if len(plan) == len(launches)]
    return [dict(sorted(plan.items())) for plan in whole]


@rule(EXPERIMENT_RULES)
def starts_in_order(runs: list[Launch]) -> Iterator[Finding]:
    """Report a launch that began before one that comes earlier in its plan: its time or its position was changed.

    A launch that was made again after it failed comes later than its position, and is left out.
    """
    for by_position in _plans(runs):
        begun = [
            (run.began_at, run)
            for run in by_position.values()
            if run.began_at is not None and "." not in Path(run.path).parent.name
        ]
        for (before_s, before), (began_s, run) in pairwise(begun):
            if began_s < before_s - _RESOLUTION_S - limit("clock_skew_s"):
                stated = f"began {before_s - began_s:.0f} s before {before.path}"
                meaning = (
                    "The launcher makes the launches of a plan in their order. Or it was made again without a trace."
                )
                yield finding(run.path, "warning", stated, "later: its plan has it after that", None, meaning)
                break


@rule(EXPERIMENT_RULES)
def missing_run(runs: list[Launch]) -> Iterator[Finding]:
    """Report launches that came before others in their plan and have no record; as a note, planned ones not made yet.

    The launcher makes the launches of a plan in their order, also writes a record of one that fails, and passes over
    those that have one. So each position in the order, up to the last one with a record, has one somewhere in the
    folder of the experiment. Later positions may be missing: the launcher may have been interrupted.

    `missing` reports the repeats of which a later one has a record.
    """
    for by_position in _plans(runs):
        launches = list(by_position.values())
        yield from _missing_in_plan(Path(launches[0].path).parents[3], launches, 1 + max(by_position) - len(launches))


def _missing_in_plan(experiment: Path, runs: list[Launch], gaps: int) -> Iterator[Finding]:
    """Yield the finding on one plan; `gaps`: positions before the last one that none of these launches has."""
    have = {(Path(run.path).parents[1], run.repeat) for run in runs}
    planned = {(Path(run.path).parents[1], repeat) for run in runs for repeat in range(run.planned)}
    if not gaps and planned <= have:
        return
    recorded = {point: set(_generations(point)) for point in experiment.glob("*/*")}
    elsewhere = {(point, repeat) for point, repeats in recorded.items() for repeat in repeats} - have
    within = sum(len(_before_the_last(repeats)) for repeats in recorded.values())
    lost = gaps - len(elsewhere) - within
    names = sorted(f"{point.parent.name} r{n}" for point, n in planned if n > max(recorded.get(point) or {n}))
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    if lost > 0:
        stated = f"no record of {lost} launch{'es' * (lost > 1)} that came before others in the plan"
        stated += f"; without one are {listed}" if names else ""
        yield finding(str(experiment), "warning", stated, _ALL_LAUNCHES, None, _RUNS_REMOVED)
    elif names:
        meaning = "Not made yet, interrupted, or removed: it cannot be determined."
        yield finding(str(experiment), "note", f"no record of {listed}", "launches that were planned", None, meaning)


def missing(folders: Collection[Path]) -> Iterator[Finding]:
    """Yield findings on repeats and generations without a record although later ones have one.

    `folders` are those of points. The launcher makes the runs in order, and writes a record of one that fails too.
    """
    for folder in folders:
        recorded = _generations(folder)
        repeats = _before_the_last(recorded)
        lost = [f"r{repeat}" for repeat in repeats] or [
            f"r{repeat}, generation {number}"
            for repeat, generations in sorted(recorded.items())
            for number in sorted(set(range(1, max(generations))) - generations)
        ]
        if lost:
            grade: Severity = "warning" if repeats else "note"
            meaning = _RUNS_REMOVED if repeats else "Its launcher was killed, or the record was removed."
            gap = finding(str(folder), grade, f"no record of {', '.join(lost)}", _ALL_LAUNCHES, None, meaning)
            yield replace(gap, rule="missing_run")


def _generations(point: Path) -> dict[int, set[int]]:
    """Return the generations of each repeat that have a record in the folder of a point."""
    generations: dict[int, set[int]] = defaultdict(set)
    for path in point.glob(f"*/{RECORD_NAME}"):
        if run := _RUN.fullmatch(path.parent.name):
            generations[int(run[1])].add(int(run[2] or 1))
    return generations


def _before_the_last(repeats: Collection[int]) -> list[int]:
    """Return the repeats that are missing although a later one exists."""
    return sorted(set(range(max(repeats, default=-1))) - set(repeats))
