"""What the audit compares between launches, and rules between the launches of an experiment."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis import metrics
from analysis.audit.findings import EXPERIMENT_RULES, Finding, Severity, graded, rule
from analysis.audit.records import ratios
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.stats.repeats import MIN_VALUES
from analysis.stats.verdict import apart
from analysis.table.checks.copies import from_clock
from analysis.thresholds import limit
from train.record.record import Order, RunRecord

Scatter = NDArray[np.float32]
_MOST = 256  # steps of a run that are compared with others: more add nothing


@dataclass(frozen=True)
class Launch:
    """How one run was made, and its result: what the rules compare between the runs of an experiment."""

    path: str
    experiment: str
    point: str
    config_hash: str
    machine: str
    software: tuple[tuple[str, str], ...]
    curve: tuple[tuple[str, Any], ...]  # what is swept beside the nodes: launches in rounds and their points share it
    in_rounds: bool
    cores_per_rank: tuple[int, ...]
    divided: tuple[Any, ...]  # how its experiment divides the cores of a node here: swept values
    images_per_s: float
    measure: str
    repeat: int
    speedups: tuple[tuple[str, Number], ...]  # of each arm in rounds, in this launch
    cores: frozenset[tuple[str, int]]  # that its ranks were bound to, with their hosts
    order: Order | None  # its place in the plan of the launcher, which makes one run after the other
    planned: int  # launches of its point; 0: not known
    compete: bool  # launches of a point that is surely behind are not made
    began_at: float | None  # seconds since the epoch; None: not known
    job_s: float
    scatter: Scatter = field(compare=False)  # of its steps


# Keys that say how many cores a rank has.
_DIVIDE = ("ranks_per_node", "threads_per_rank")


def launch(run: RunRecord, path: str) -> Launch:
    """What the rules that compare runs need of a complete record."""
    environment = run.environment
    software = dict(environment.versions) if environment else {}
    if environment:
        software |= {
            "git commit": environment.git_commit or "none",
            "image": environment.image_digest or environment.image or "none",
            "MPI": environment.mpi or "none",
            "NCCL": environment.nccl or "none",
            "digest of the code": run.source_digest or "none",
        }
    hosts = environment.hosts if environment else []
    return Launch(
        path,
        run.experiment,
        run.point,
        run.config_hash,
        "; ".join(
            sorted({f"{host.cpu_model}, {host.cores} cores, {', '.join(host.gpus) or 'no GPU'}" for host in hosts})
        ),
        tuple(sorted(software.items())),
        tuple((key, value) for key, value in run.swept.items() if key != "nodes"),
        bool(run.config.get("rounds")),
        _cores_per_rank(run),
        tuple(run.config[key] for key in _DIVIDE if key in run.swept or key in run.arm_keys),
        _images_per_s(run),
        run.config["measure"]["name"],
        run.repeat,
        _speedups(run),
        frozenset((rank.host, core) for rank in run.ranks for core in rank.cores),
        run.order,
        run.config["measure"].get("repeats", 0),
        run.config["measure"].get("compete", False),
        _began_at(run),
        run.job_s,
        _scatter(run),
    )


def _speedups(run: RunRecord) -> tuple[tuple[str, Number], ...]:
    """The median speedup of each arm in rounds, where it has an interval."""
    medians = ((name, repeats.median([values])) for name, values in ratios(run).items())
    return tuple((name, median) for name, median in medians if median.has_interval)


def _began_at(run: RunRecord) -> float | None:
    try:
        return datetime.fromisoformat(run.started_at).timestamp()
    except ValueError:
        return None


def _cores_per_rank(run: RunRecord) -> tuple[int, ...]:
    """The numbers of cores that ranks have; none where the worlds of a launch are to divide a node differently."""
    of_worlds = [world["settings"] for world in run.config.get("worlds") or []]
    if any(key in settings for settings in of_worlds for key in _DIVIDE):
        return ()
    return tuple(sorted({len(rank.cores) // rank.workers for rank in run.ranks}))


def _images_per_s(run: RunRecord) -> float:
    """The throughput of a launch of one point; 0 for one in rounds or without a batch, which has no such number."""
    if run.config.get("rounds") or not run.config.get("global_batch"):
        return 0.0
    timed_s = max(rank.phases_s["timed"] for rank in run.ranks)
    return metrics.throughput(run.config["global_batch"], len(run.ranks[0].step_times_s), timed_s)


def _scatter(run: RunRecord) -> Scatter:
    """How the steps of rank 0 scatter, in their order: logarithms over the median of their arm.

    Empty where a clock did not give them.
    """
    if not run.ranks:
        return np.empty(0, np.float32)
    of_arms: dict[int, list[float]] = defaultdict(list)
    found: list[tuple[int, int, float]] = [(0, 0, time_s) for time_s in run.ranks[0].step_times_s]
    for window in sorted(run.ranks[0].windows, key=lambda window: (window.round, window.arm)):
        found += [(window.round, window.arm, time_s) for time_s in window.step_times_s]
    found = [one for one in found[:_MOST] if one[2] > 0]
    for _, arm, time_s in found:
        of_arms[arm].append(time_s)
    usual = {arm: float(np.median(times)) for arm, times in of_arms.items()}
    if from_clock(np.array([time_s for _, _, time_s in found])).sum() < len(found) / 2:
        return np.empty(0, np.float32)
    return np.array([np.log(time_s / usual[arm]) for _, arm, time_s in found], np.float32)


@rule(EXPERIMENT_RULES)
def one_repeat(runs: list[Launch]) -> Iterator[Finding]:
    """A point measured once: it is not known how much the next run would differ. One finding an experiment.

    Of a curve in rounds the rounds tell, and single points are launched for what a job costs once.
    """
    once = [same[0] for same in _by(_without_rounds(runs), _point).values() if len(same) == 1]
    if once:
        yield Finding(
            "local", once[0].path + (f", and {len(once) - 1} more points" if len(once) > 1 else ""), "one_repeat",
            "warning" if any(run.measure == "report" for run in once) else "note", f"{once[0].experiment}: 1 repeat",
            "2 or more, 5 for a report", None, "No interval can be given, and no difference to it can be called one.",
        )  # fmt: skip


@rule(EXPERIMENT_RULES)
def repeats_apart(runs: list[Launch]) -> Iterator[Finding]:
    """Repeats of one point that differ a lot: the noise floor of this machine, on its worst point.

    Of a curve in rounds the intervals say what differences mean: its ratios are taken within a round.
    """
    apart = [
        (metrics.change_fraction(min(speeds), max(speeds)), same[0], len(same))
        for same in _by(_without_rounds(runs), _point).values()
        if len(same) > 1 and min(speeds := [run.images_per_s for run in same]) > 0
    ]
    worst = max(apart, key=lambda item: item[0], default=None)
    if worst and worst[0] > limit("spread"):
        yield Finding(
            "local", worst[1].path, "repeats_apart",
            graded(worst[0], warning=limit("spread"), serious=limit("apart_serious")),
            f"{worst[1].experiment}, {worst[1].point}: {worst[2]} repeats", "one number", worst[0],
            f"No difference below {worst[0]:.0%} means anything here. Is the machine otherwise idle?",
        )  # fmt: skip


# How much a difference means; of anything else it is serious. A commit may change what no run uses, the digest of
# train/ and conf/ only a comment in it.
_SOFTWARE: dict[str, Severity] = {"git commit": "note", "digest of the code": "warning"}


@rule(EXPERIMENT_RULES)
def launches_apart(runs: list[Launch]) -> Iterator[Finding]:
    """Launches of one curve in rounds whose speedups differ by more than their rounds explain.

    The 95 % intervals of two launches do not overlap, on the arm where they are furthest apart. Fewer than six launches
    then say nothing of the next one.
    """
    for same in _by([run for run in runs if run.in_rounds], _point).values():
        for name in dict.fromkeys(name for run in same for name, _ in run.speedups):
            known = [(dict(run.speedups)[name], run) for run in same if name in dict(run.speedups)]
            (low, slow), (high, _) = min(known, key=lambda k: k[0].high), max(known, key=lambda k: k[0].low)
            if apart(low, high) and len(known) < MIN_VALUES:
                off = metrics.change_fraction(low.value, high.value)
                yield Finding(
                    "local", slow.path, "launches_apart", graded(off, serious=limit("apart_serious")),
                    f"{name}: {low.value:.3g}x in one launch", f"{high.value:.3g}x in another", off,
                    f"{len(known)} launches cannot tell what the next one gives: measure {MIN_VALUES} "
                    "(measure.launches).",
                )  # fmt: skip


@rule(EXPERIMENT_RULES)
def unequal_machines(runs: list[Launch]) -> Iterator[Finding]:
    """A point, or a curve, of which some launches ran on other machines than the rest: they are series of their own.

    The fewest are named: without them the others would have as many points and repeats as were planned.
    """
    for same in _by(runs, lambda run: run.curve).values():
        machines = _by(same, lambda run: run.machine)
        if len(machines) > 1:
            (most, usual), *others = sorted(machines.items(), key=lambda item: -len(item[1]))
            for machine, strayed in others:
                more = f", and {len(strayed) - 1} more runs" if len(strayed) > 1 else ""
                yield Finding(
                    "local", strayed[0].path + more, "unequal_machines", "serious",
                    f"{strayed[0].point} r{strayed[0].repeat} on {machine or 'an unknown machine'}",
                    f"{most or 'an unknown machine'}, as {len(usual)} other runs", None,
                    "It is no repeat of the others and no point of their curve: measure it again where they ran.",
                )  # fmt: skip


@rule(EXPERIMENT_RULES)
def unequal_software(runs: list[Launch]) -> Iterator[Finding]:
    """Points of one experiment measured with different software: the software may be the difference."""
    for name in sorted({key for run in runs for key, _ in run.software}):
        versions = sorted({dict(run.software).get(name, "none") for run in runs})
        if len(versions) > 1:
            yield Finding(
                "local", runs[0].experiment, "unequal_software", _SOFTWARE.get(name, "serious"),
                f"{name}: {', '.join(version[:12] for version in versions)}", "one version", None,
                "Points measured with different versions are not points of one curve; measure them again with one.",
            )  # fmt: skip


@rule(EXPERIMENT_RULES)
def unequal_cores(runs: list[Launch]) -> Iterator[Finding]:
    """Ranks with other numbers of cores at other points of one machine: a node is the same machine at every point.

    Otherwise the smallest point has the whole machine to itself, and every speedup is wrong. Points that are to divide
    a node differently, because that is swept, are not compared with each other.
    """
    for (machine, _), same in _by(runs, lambda run: (run.machine, run.divided)).items():
        cores = sorted({number for run in same for number in run.cores_per_rank})
        if len(cores) > 1:
            yield Finding(
                "local", same[0].experiment, "unequal_cores", "serious", f"{', '.join(map(str, cores))} cores a rank",
                "one number", None, f"On {machine or 'an unknown machine'}: a speedup between them compares cores.",
            )  # fmt: skip


def _point(run: Launch) -> tuple[str, str]:
    return run.point, run.config_hash


def _without_rounds(runs: list[Launch]) -> list[Launch]:
    """The launches of points that no launch measured in rounds."""
    curves = {run.curve for run in runs if run.in_rounds}
    return [run for run in runs if run.curve not in curves]


def _by(runs: list[Launch], key: Callable[[Launch], Any]) -> dict[Any, list[Launch]]:
    groups: dict[Any, list[Launch]] = defaultdict(list)
    for run in runs:
        groups[key(run)].append(run)
    return groups
