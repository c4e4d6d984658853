"""What the split of a step shows: its largest loss, and a rank that is later than the others in round after round."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from analysis.diagnose.paired_windows import Arm, Curve, Launch
from analysis.diagnose.split import LOSSES, Part, Split, in_memory
from analysis.stats import repeats
from analysis.stats.number import LEVEL, Number
from analysis.stats.verdict import is_above


@dataclass(frozen=True)
class LargestLoss:
    """The largest loss of a point: one part, one of several, or none that is significantly above zero."""

    candidates: Sequence[Part]  # the largest on average first
    enough: bool = True  # rounds for intervals

    @property
    def part(self) -> Part | None:
        """The part that is significantly the largest; None where none is."""
        return self.candidates[0] if len(self.candidates) == 1 and self.enough else None


def largest_loss(split: Split) -> LargestLoss:
    """Return the losses that are significantly above zero, and not significantly below another one, largest first.

    A part is below another where the whole interval of their difference within rounds is.
    """
    losses = sorted((part for part in split.parts if part in LOSSES), key=lambda part: -split.part(part).value)
    if not losses:
        return LargestLoss(())
    largest = losses[0]
    if not split.part(largest).has_interval:
        return LargestLoss(losses, enough=False)
    rivals = [part for part in losses[1:] if not is_above(split.difference(largest, part))]
    return LargestLoss([part for part in (largest, *rivals) if is_above(split.part(part))])


@dataclass(frozen=True)
class SlowestRank:
    """The rank whose gradients are ready last, on average over rounds."""

    host: str
    rank: int
    cores: Sequence[int]
    behind: Number  # seconds a step after the mean of the other ranks
    certain: bool  # it is significantly behind, though it was chosen among all ranks
    others_fraction: float | None  # of its cores' time, without allreduce, that other processes took; None: not known
    stolen_fraction: float | None  # the same of the hypervisor


Location = tuple[str, int, tuple[int, ...]]  # host, rank, cores


def slowest_rank(curve: Curve, point: Arm) -> SlowestRank | None:
    """Return the slowest rank of a point; None where one rank computes, or the times of gradients are not known."""
    delays_s: dict[Location, list[list[float]]] = defaultdict(list)
    for launch in curve.launches:
        for location, values in _delays_s(launch, point).items():
            delays_s[location] += [values] if curve.in_rounds else repeats.singles(values)
    if not delays_s:
        return None
    location = max(delays_s, key=lambda one: np.mean([value for values in delays_s[one] for value in values]))
    host, rank, cores = location
    behind = repeats.arithmetic_mean(delays_s[location])
    # All ranks together are right 95 times in 100 (Bonferroni).
    certain = repeats.median(delays_s[location]).ends(1 - (1 - LEVEL) / len(delays_s))[0] > 0
    return SlowestRank(host, rank, cores, behind, certain, *_preempted_fractions(curve, point, rank))


def _delays_s(launch: Launch, point: Arm) -> dict[Location, list[float]]:
    """Return how long after the mean of the other ranks each rank's gradients are ready, round by round, in s."""
    rounds = [paired for paired in launch.paired_windows if point in paired.arms]
    arm = in_memory(point, rounds)
    delays_s: dict[Location, list[float]] = defaultdict(list)
    for paired in rounds:
        computing_s = paired.arms[arm].computing_s
        if computing_s is None or len(computing_s) < 2:
            return {}
        ready_s = computing_s.mean(axis=1)
        others_s = (ready_s.sum() - ready_s) / (len(ready_s) - 1)
        for rank, delay_s in enumerate((ready_s - others_s).tolist()):
            host, cores = launch.locations[rank]
            delays_s[host, rank, tuple(cores)].append(delay_s)
    return delays_s


def _preempted_fractions(curve: Curve, point: Arm, rank: int) -> tuple[float | None, float | None]:
    """Return the shares of a rank's core time that other processes and the hypervisor took, without allreduce."""
    control = replace(point, role="control")
    all_times = [
        paired.arms[control]
        for launch in curve.launches
        for paired in launch.paired_windows
        if point in paired.arms and control in paired.arms
    ]
    shares = [
        np.array([times.other_processes_s[rank], times.stolen_s[rank]]) / times.steps_s[rank].mean()
        for times in all_times
        if times.other_processes_s is not None and times.stolen_s is not None
    ]
    if not shares:
        return None, None
    others, stolen = np.mean(shares, axis=0)
    return float(others), float(stolen)
