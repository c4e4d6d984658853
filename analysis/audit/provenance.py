"""Rules on where records come from: order, folders, copies and gaps, which no single record shows."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.audit.findings import EXPERIMENT_RULES, RECORD_RULES, Finding, Severity, finding, rule
from analysis.audit.launches import Launch, Scatter
from analysis.thresholds import limit
from train.record import rounds
from train.record.record import RECORD_NAME, RunRecord

_RESOLUTION_S = 1.0  # of started_at
_LOST = "It was removed, or its launcher was killed. Of the runs that remain nobody knows how they were chosen."
_EACH = "a record of each launch, also of one that failed"
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
    if not by_round or run.config.get("worlds_at_once"):
        return
    taken = [index for index, arm in enumerate(arms) if arm["name"] not in run.arms_left_out]
    own = {index for index in taken if 0 in rounds.ranks_of(run.config, index)}
    drawn = islice(rounds.orders(run.config["seed"], run.repeat, len(taken)), 1 + max(by_round))
    expected = [[taken[n] for n in order if taken[n] in own] for order in drawn]
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
    """Report two runs of one point whose steps scatter alike, one by one: one was made from the other.

    Times that were copied and changed a little, or all by one factor, agree in no digit. But no two launches share how
    much longer or shorter each step is than the one before. They are compared by Spearman's rank correlation, which
    single slow steps do not decide.
    """
    for same in _repeats(runs).values():
        shortest = min(len(run.scatter) for run in same)
        if len(same) < 2:
            continue
        alike = _correlations([run.scatter[:shortest] for run in same])
        one, other = np.unravel_index(int(np.argmax(alike)), alike.shape)
        if alike[one, other] > limit("copied_scatter"):
            first, second = sorted((same[int(one)], same[int(other)]), key=lambda run: run.repeat)
            stated = f"{shortest} steps that scatter as those of {first.path}"
            follows = f"a rank correlation of less than {limit('copied_scatter'):g}, not {alike[one, other]:.4f}"
            meaning = "No two launches have that in common: one of them was made from the other."
            yield finding(second.path, "serious", stated, follows, None, meaning)


def _repeats(runs: list[Launch]) -> Mapping[tuple[str, str], list[Launch]]:
    """Return the runs of each point with enough steps that a clock measured."""
    repeats: dict[tuple[str, str], list[Launch]] = defaultdict(list)
    for run in runs:
        if len(run.scatter) > limit("least_steps"):
            repeats[run.point, run.config_hash].append(run)
    return repeats


def _correlations(scatters: list[Scatter]) -> NDArray[np.float64]:
    """Return the rank correlations of the differences between neighbours, (runs, runs); 0 of each run with itself."""
    from scipy.stats import rankdata  # it takes longer to import than most commands to run

    ranks = rankdata(np.diff(np.stack(scatters), axis=1), axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    sizes = np.linalg.norm(ranks, axis=1)
    ranks /= np.where(sizes > 0, sizes, 1.0)[:, None]
    correlations: NDArray[np.float64] = ranks @ ranks.T
    np.fill_diagonal(correlations, 0.0)
    return correlations


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


@rule(EXPERIMENT_RULES)
def missing_run(runs: list[Launch]) -> Iterator[Finding]:
    """Report launches that came before others in their plan and have no record; as a note, planned ones not made yet.

    The launcher makes the launches of a plan in their order, also writes a record of one that fails, and passes over
    those that have one. So each position in the order, up to the last one with a record, has one somewhere in the
    folder of the experiment. Later positions say nothing: the launcher may have been interrupted.

    `missing` reports the repeats of which a later one has a record. Plans in which two launches have one position are
    left out (they are two plans), and so are arms that compete: those significantly slower are not launched.
    """
    plans: dict[tuple[Path, int | None, int], list[Launch]] = defaultdict(list)
    for run in runs:
        if run.order and not run.compete and len(Path(run.path).parts) > 4:
            plans[Path(run.path).parents[3], run.order.seed, run.order.runs].append(run)
    for (experiment, _, _), launches in plans.items():
        positions = {run.order.position for run in launches if run.order}
        if len(positions) == len(launches):
            yield from _missing_in_plan(experiment, launches, 1 + max(positions) - len(positions))


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
        yield finding(str(experiment), "warning", stated, _EACH, None, _LOST)
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
            meaning = _LOST if repeats else "Its launcher was killed, or the record was removed."
            one = finding(str(folder), grade, f"no record of {', '.join(lost)}", _EACH, None, meaning)
            yield replace(one, rule="missing_run")


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
