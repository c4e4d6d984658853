"""The parts that all checks share: contradictions, the list of checks, kinds of launches, tolerances of clocks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, pairwise

from analysis.thresholds import limit
from train.record.record import CoreUse, Rank, RunRecord, Window


@dataclass(frozen=True)
class Contradiction:
    """Two statements of one record that cannot both be true. Texts carry their units; off: stated / follows - 1."""

    stated: str
    follows: str
    off: float | None = None
    rule: str = ""

    def __str__(self) -> str:
        """Return both statements, as the commands print them."""
        return f"{self.stated}, but {self.follows}"


Check = Callable[[RunRecord], Iterator[Contradiction]]

# By name, in the order of their modules. The docstring is the reason for the check.
CHECKS: dict[str, Check] = {}


def check(function: Check) -> Check:
    """Add a function to the checks by its name."""
    CHECKS[function.__name__] = function
    return function


def off(stated: float, follows: float) -> float | None:
    """Return the relative difference stated / follows - 1; None for a base of 0."""
    return stated / follows - 1 if follows else None


def unequal_times(stated: str, stated_s: float, follows: str, follows_s: float) -> Contradiction:
    """Return the contradiction of two times, each after a text on its meaning or source."""
    return Contradiction(f"{stated} {stated_s:.6g} s", f"{follows} {follows_s:.6g} s", off(stated_s, follows_s))


def unequal_ranks(text: str, longest_s: float, shortest_s: float, addition: str = "") -> Contradiction:
    """Return the contradiction of two ranks in the time of something that all ranks did together."""
    follows = f"{shortest_s:.6g} s on another{addition}"
    return Contradiction(f"{text} {longest_s:.6g} s on one rank", follows, off(longest_s, shortest_s))


def in_rounds(run: RunRecord) -> bool:
    """Return whether the launch measured several points in rounds."""
    return bool(run.config.get("rounds"))


def sweeps(run: RunRecord) -> bool:
    """Return whether only allreduces were timed."""
    return run.config.get("allreduce_sweep") is not None


def resized(run: RunRecord) -> bool:
    """Return whether ranks joined or left, so that their measurements differ."""
    return bool(run.resizes or run.config["distribution"].get("elastic"))


def size_of_point(run: RunRecord) -> int:
    """Return the ranks of the configured point: of the job, or of its first rank group."""
    return int(run.config["nodes"] * run.config["ranks_per_node"])


def size(run: RunRecord) -> int:
    """Return the configured number of ranks of the job."""
    return sum(group["ranks"] for group in run.config.get("rank_groups") or []) or size_of_point(run)


@dataclass(frozen=True)
class Slack:
    """How exactly the clocks of a run can be compared."""

    pause_s: float  # for which a rank may stand still between two readings of its clock that belong together
    cycle_s: float  # of Horovod
    cycles_s: float  # the cycles that a barrier takes
    crowded_fraction: float  # of a window, in which ranks that share cores wait for each other to be scheduled
    alone: bool  # whether one rank has no barrier to wait at

    @classmethod
    def from_run(cls, run: RunRecord) -> Slack:
        """Return the slack of a run. A node with a CPU quota stands still for up to one period of it."""
        distribution = run.config["distribution"]
        period_s = max((quota.period_s for quota in run.node_quotas), default=0.0)
        cycle_s = distribution.get("cycle_time_ms", limit("longest_cycle_ms")) / 1e3
        cycles_s = limit("barrier_cycles") * (cycle_s + period_s) if distribution["backend"] != "none" else 0.0
        crowded_fraction = limit("crowded_fraction") if run.cores_shared else 0.0
        return cls(limit("pause_s") + period_s, cycle_s, cycles_s, crowded_fraction, alone=in_rounds(run))

    def barrier_s(self, window_s: float, ranks: int) -> float:
        """Return how long a barrier may take after the last step of a window, on the slowest rank.

        It ends with a cycle of Horovod.
        """
        cycles_s = 0.0 if self.alone and ranks == 1 else self.cycles_s
        return self.pause_s + cycles_s + self.crowded_fraction * window_s

    def apart_s(self, window_s: float) -> float:
        """Return how far apart two ranks may time one window: they leave a barrier within one cycle."""
        return self.cycle_s + self.pause_s + self.crowded_fraction * window_s


def delayed_s(counters: Iterable[CoreUse | None]) -> float:
    """Return the longest time that a rank was ready and did not run, as the kernel counted it.

    A rank may enter and leave a barrier, or read a second clock, by that much later.
    """
    return max((counted.delay_s for counted in counters if counted and counted.delay_s is not None), default=0.0)


def core_uses(run: RunRecord) -> Iterator[tuple[Rank, Window | None, CoreUse]]:
    """Yield the counters around the timed steps of each rank (window None) and around each window."""
    for rank in run.ranks:
        if rank.timed_cores:
            yield rank, None, rank.timed_cores
        for window in rank.windows:
            if window.cores:
                yield rank, window, window.cores


def window_name(rank: Rank, window: Window | None) -> str:
    """Return the name of a rank and of its window."""
    return f"rank {rank.rank}" + (f", round {window.round}, arm {window.arm}" if window else "")


def trained_epochs(run: RunRecord) -> list[tuple[int, slice]]:
    """Return the position of each epoch that this launch trained, and its timed steps.

    The first epoch also has the first step, which is not timed. The earlier epochs of a launch that resumed are of
    another launch. Empty if no number of epochs gives the timed steps.
    """
    steps = len(run.ranks[0].step_times_s) + 1
    resumed = any("resumed after its epoch" in note for note in run.notes)
    for first in range(len(run.epochs) if resumed else 1):
        counts = [epoch.steps for epoch in run.epochs[first:]]
        if sum(counts) == steps:
            ends = [0, *(end - 1 for end in accumulate(counts))]
            return [(first + position, slice(*ends_of)) for position, ends_of in enumerate(pairwise(ends))]
    return []
