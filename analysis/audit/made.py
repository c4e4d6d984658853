"""How a run was made, and its result: what the rules that compare runs need of a complete record."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from analysis import metrics
from analysis.audit.records import ratios
from analysis.stats import repeats
from analysis.stats.number import Number
from analysis.table.checks.copies import of_a_clock
from train.record.record import Order, RunRecord

Scatter = NDArray[np.float32]
_MOST = 256  # steps of a run that are compared with others: more add nothing


@dataclass(frozen=True)
class Made:
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


def made(run: RunRecord, path: str) -> Made:
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
    return Made(
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
    if of_a_clock(np.array([time_s for _, _, time_s in found])).sum() < len(found) / 2:
        return np.empty(0, np.float32)
    return np.array([np.log(time_s / usual[arm]) for _, arm, time_s in found], np.float32)
