"""Rules on where records come from: what no single record shows, and who edits records must think of."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from itertools import islice, pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from analysis.audit.findings import EXPERIMENT_RULES, RECORD_RULES, Finding, rule
from analysis.audit.launches import Launch, Scatter
from analysis.thresholds import limit
from train.record import rounds
from train.record.record import RECORD_NAME, RunRecord

_RESOLUTION_S = 1.0  # of started_at
_LOST = "It was removed, or its launcher was killed. Of the runs that remain nobody knows how they were chosen."
_RUN = re.compile(r"r(\d{1,6})(?:\D(\d{1,6}))?")  # the folder of a run: repeat, generation


@rule(RECORD_RULES)
def order_of_rounds(run: RunRecord, path: str) -> Iterator[Finding]:
    """The arms took their turns in the order that is drawn from the seed and the number of the repeat.

    Where rounds are dropped and the others renumbered, or moved, or are of another launch, they no longer do. Arms that
    take their turn all together have no order.
    """
    of_round: dict[int, list[int]] = defaultdict(list)
    for rank in run.ranks[:1]:
        for window in rank.windows:
            of_round[window.round].append(window.arm)
    arms = run.config.get("rounds") or []
    if not of_round or run.config.get("worlds_at_once"):
        return
    taken = [place for place, arm in enumerate(arms) if arm["name"] not in run.arms_left_out]
    own = {place for place in taken if 0 in rounds.ranks_of(run.config, place)}
    drawn = islice(rounds.orders(run.config["seed"], run.repeat, len(taken)), 1 + max(of_round))
    expected = [[taken[n] for n in order if taken[n] in own] for order in drawn]
    wrong = [number for number, order in of_round.items() if order != expected[number][: len(order)]]
    if wrong:
        yield Finding(
            "local", path, "order_of_rounds", "serious",
            f"{len(wrong)} of {len(of_round)} rounds, the first of them round {wrong[0]}: arms in the order "
            f"{_listed(of_round[wrong[0]])}",
            f"{_listed(expected[wrong[0]])}, which seed {run.config['seed']} and repeat {run.repeat} give", None,
            "Rounds were dropped, moved or taken from another launch, or the seed or the repeat was changed.",
        )  # fmt: skip


def _listed(arms: list[int]) -> str:
    return ", ".join(map(str, arms))


@rule(RECORD_RULES)
def misplaced_record(run: RunRecord, path: str) -> Iterator[Finding]:
    """A record says the same as its folder: experiment, point, hash of the configuration and repeat."""
    parts = Path(path).parts
    if len(parts) < 5 or parts[-1] != RECORD_NAME or not (folder := _RUN.fullmatch(parts[-2])):
        return
    says = {
        "experiment": (run.experiment, parts[-5] if len(parts) > 5 else run.experiment),
        "point": (run.point, parts[-4]),
        "hash of the configuration": (run.config_hash[:8], parts[-3]),
        "repeat": (str(run.repeat), folder[1]),
    }
    wrong = {name: (stated, of_folder) for name, (stated, of_folder) in says.items() if stated != of_folder}
    if wrong:
        name, (stated, of_folder) = next(iter(wrong.items()))
        yield Finding(
            "local", path, "misplaced_record", "warning", f"{name} {stated} in the record", f"{of_folder} in its path",
            None, "The record was moved, copied or edited after it was written.",
        )  # fmt: skip


@rule(EXPERIMENT_RULES)
def copied_scatter(runs: list[Launch]) -> Iterator[Finding]:
    """Two runs of one point whose steps scatter alike, one by one: one was made from the other.

    Times that were copied and changed a little, or all by one factor, agree in no digit. But how much longer or shorter
    each step is than the one before no two launches have in common. By Spearman's rank correlation, which single slow
    steps do not decide.
    """
    for same in _repeats(runs).values():
        shortest = min((len(run.scatter) for run in same), default=0)
        if len(same) < 2 or shortest <= limit("least_steps"):
            continue
        alike = _correlations([run.scatter[:shortest] for run in same])
        one, other = np.unravel_index(int(np.argmax(alike)), alike.shape)
        if alike[one, other] > limit("copied_scatter"):
            first, second = sorted((same[int(one)], same[int(other)]), key=lambda run: run.repeat)
            yield Finding(
                "local", second.path, "copied_scatter", "serious",
                f"{shortest} steps that scatter as those of {first.path}",
                f"a rank correlation of less than {limit('copied_scatter'):g}, not {alike[one, other]:.4f}", None,
                "No two launches have that in common: one of them was made from the other.",
            )  # fmt: skip


def _repeats(runs: list[Launch]) -> Mapping[tuple[str, str], list[Launch]]:
    """The runs of each point whose steps a clock gave, and are enough."""
    found: dict[tuple[str, str], list[Launch]] = defaultdict(list)
    for run in runs:
        if len(run.scatter) > limit("least_steps"):
            found[run.point, run.config_hash].append(run)
    return found


def _correlations(scatters: list[Scatter]) -> NDArray[np.float64]:
    """The rank correlations of the differences between neighbours, (runs, runs); 0 of each run with itself."""
    from scipy.stats import rankdata  # it takes longer to import than most commands to run

    ranks = rankdata(np.diff(np.stack(scatters), axis=1), axis=1)
    ranks -= ranks.mean(axis=1, keepdims=True)
    sizes = np.linalg.norm(ranks, axis=1)
    ranks /= np.where(sizes > 0, sizes, 1.0)[:, None]
    found: NDArray[np.float64] = ranks @ ranks.T
    np.fill_diagonal(found, 0.0)
    return found


@rule(EXPERIMENT_RULES)
def runs_at_once(runs: list[Launch]) -> Iterator[Finding]:
    """Two launches on the same cores at the same time: they disturbed each other, or a time of them is not true."""
    began = sorted((run for run in runs if run.began_at is not None and run.order), key=lambda run: run.began_at or 0)
    apart_s = _RESOLUTION_S + limit("clock_skew_s")
    for first, second in pairwise(began):
        end = (first.began_at or 0.0) + first.job_s
        if (second.began_at or 0.0) < end - apart_s and first.machine == second.machine and first.cores & second.cores:
            yield Finding(
                "local", second.path, "runs_at_once", "warning",
                f"began {end - (second.began_at or 0.0):.0f} s before the end of {first.path}",
                "one launch after the other on the same cores", None,
                "Launches that share cores disturb each other. If they ran one after the other, a time was changed.",
            )  # fmt: skip
            return


@rule(EXPERIMENT_RULES)
def missing_run(runs: list[Launch]) -> Iterator[Finding]:
    """Launches that came before others in their plan and have no record; as a note, planned ones that may not be made.

    The launcher makes the launches of a plan in their order, writes a record of one that fails too, and passes over
    those that have one. So each place in the order, up to the last one with a record, has one somewhere in the folder
    of the experiment. Of the places after that nothing is known: the launcher may have been interrupted.

    `missing` has the repeats of which a later one has a record. Nothing is said where two launches have one place (of
    two plans), nor of arms that compete: those surely behind are passed over.
    """
    plans: dict[tuple[Path, int | None, int], list[Launch]] = defaultdict(list)
    for run in runs:
        if run.order and not run.compete and len(Path(run.path).parts) > 4:
            plans[Path(run.path).parents[3], run.order.seed, run.order.runs].append(run)
    for (experiment, _, _), of_plan in plans.items():
        places = {run.order.position for run in of_plan if run.order}
        if len(places) == len(of_plan):
            yield from _missing_of_plan(experiment, of_plan, 1 + max(places) - len(places))


def _missing_of_plan(experiment: Path, runs: list[Launch], gaps: int) -> Iterator[Finding]:
    """gaps: places in the order of the plan, before the last one, that none of these launches has."""
    have = {(Path(run.path).parents[1], run.repeat) for run in runs}
    planned = {(Path(run.path).parents[1], repeat) for run in runs for repeat in range(run.planned)}
    if not gaps and planned <= have:
        return
    recorded = {point: set(_generations(point)) for point in experiment.glob("*/*")}
    elsewhere = {(point, repeat) for point, known in recorded.items() for repeat in known} - have
    within = sum(len(_before_the_last(known)) for known in recorded.values())
    lost = gaps - len(elsewhere) - within
    names = sorted(f"{point.parent.name} r{n}" for point, n in planned if n > max(recorded.get(point) or {n}))
    listed = ", ".join(names[:5]) + (f" and {len(names) - 5} more" if len(names) > 5 else "")
    if lost > 0:
        yield Finding(
            "local", str(experiment), "missing_run", "warning",
            f"no record of {lost} launch{'es' * (lost > 1)} that came before others in the plan"
            + (f"; without one are {listed}" if names else ""),
            "a record of each launch, also of one that failed", None, _LOST,
        )  # fmt: skip
    elif names:
        yield Finding(
            "local", str(experiment), "missing_run", "note", f"no record of {listed}", "launches that were planned",
            None, "Not made yet, interrupted, or removed: nothing tells.",
        )  # fmt: skip


def missing(folders: Collection[Path]) -> Iterator[Finding]:
    """Repeats and generations of points that have no record although later ones do; `folders`: those of the points.

    The launcher makes the runs in order, and writes a record of one that fails too.
    """
    for folder in folders:
        found = _generations(folder)
        repeats = _before_the_last(found)
        generations = [
            f"r{repeat}, generation {number}"
            for repeat, known in sorted(found.items())
            for number in sorted(set(range(1, max(known))) - known)
        ]
        if repeats or generations:
            lost = [f"r{repeat}" for repeat in repeats] or generations
            yield Finding(
                "local", str(folder), "missing_run", "warning" if repeats else "note",
                f"no record of {', '.join(lost)}", "a record of each launch, also of one that failed", None,
                _LOST if repeats else "Its launcher was killed, or the record was removed.",
            )  # fmt: skip


def _generations(point: Path) -> dict[int, set[int]]:
    """The generations of each repeat that have a record in the folder of a point."""
    found: dict[int, set[int]] = defaultdict(set)
    for path in point.glob(f"*/{RECORD_NAME}"):
        if named := _RUN.fullmatch(path.parent.name):
            found[int(named[1])].add(int(named[2] or 1))
    return found


def _before_the_last(repeats: Collection[int]) -> list[int]:
    """The repeats that are not there although a later one is."""
    return sorted(set(range(max(repeats, default=-1))) - set(repeats))
