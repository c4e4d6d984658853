"""A rank that is slower than the others of its point in turn after turn: where it is, and what took its cores."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.diagnose.split import in_memory
from analysis.diagnose.turns import Arm, Curve, Launch, Measured
from analysis.stats import repeats
from analysis.stats.number import LEVEL, Number


@dataclass(frozen=True)
class Straggler:
    """The rank whose gradients are ready last, on average over turns."""

    host: str
    rank: int
    cores: Sequence[int]
    behind: Number  # seconds a step after the mean of the other ranks
    certain: bool  # that it is behind at all, though it was chosen among all ranks
    others_fraction: float | None  # of its cores' time, without allreduce, that other processes took; None: not known
    stolen_fraction: float | None  # the same of the hypervisor


Place = tuple[str, int, tuple[int, ...]]  # host, rank, cores


def find(curve: Curve, point: Arm) -> Straggler | None:
    """The slowest rank of a point; None where one rank computes, or nothing tells when gradients are ready."""
    behind: dict[Place, list[list[float]]] = defaultdict(list)
    for launch in curve.launches:
        for place, values in _behind(launch, point).items():
            behind[place] += [values] if curve.in_rounds else repeats.singles(values)
    if not behind:
        return None
    place = max(behind, key=lambda one: np.mean([value for values in behind[one] for value in values]))
    host, rank, cores = place
    # As sure of each of the ranks as that all are right 95 times in 100 (Bonferroni).
    late = repeats.arithmetic_mean(behind[place])
    certain = repeats.median(behind[place]).ends(1 - (1 - LEVEL) / len(behind))[0] > 0
    taken = _taken(curve, point, rank)
    return Straggler(host, rank, cores, late, certain, *taken)


def _behind(launch: Launch, point: Arm) -> dict[Place, list[float]]:
    """How long after the mean of the other ranks each rank's gradients are ready, turn by turn, in s."""
    turns = [turn for turn in launch.turns if point in turn.arms]
    arm = in_memory(point, turns)
    found: dict[Place, list[float]] = defaultdict(list)
    for turn in turns:
        measured = turn.arms[arm]
        if measured.computing_s is None or len(measured.computing_s) < 2:
            return {}
        ready_s = measured.computing_s.mean(axis=1)
        others_s = (ready_s.sum() - ready_s) / (len(ready_s) - 1)
        for rank, late_s in enumerate((ready_s - others_s).tolist()):
            host, cores = launch.places[rank]
            found[host, rank, tuple(cores)].append(late_s)
    return found


def _taken(curve: Curve, point: Arm, rank: int) -> tuple[float | None, float | None]:
    """The shares of the time of a rank's cores that other processes and the hypervisor took, without allreduce."""
    found: list[Measured] = []
    for launch in curve.launches:
        turns = [turn for turn in launch.turns if point in turn.arms]
        arm = replace(point, role="control")
        found += [turn.arms[arm] for turn in turns if arm in turn.arms]
    shares = [
        np.array([one.others_s[rank], one.stolen_s[rank]]) / one.steps_s[rank].mean()
        for one in found
        if one.others_s is not None and one.stolen_s is not None
    ]
    if not shares:
        return None, None
    others, stolen = np.mean(shares, axis=0)
    return float(others), float(stolen)
