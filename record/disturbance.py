"""Which rounds of a launch count: those in which other processes and the hypervisor left the cores of its ranks alone.

The rule looks at the kernel's counters, never at rates, and is the same in ranks, launcher, analysis and audit. All
windows stay in the record. `benchmarks/coverage.py` simulates the intervals of the rounds that count, and
`benchmarks/disturbed.py` measures beside a real disturbance.
"""

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from record.schema import CoreUse, RunRecord

_TICK_S = 0.01  # the resolution of the kernel's counts
_FEWEST = 3  # quiet rounds, of a launch on a machine that is seldom quiet

Disturbances = Mapping[int, float | None]  # by round, as a fraction of a core; None: not counted


def window_disturbance(core_use: CoreUse | None, cores: int, ranks_share_cores: bool) -> float | None:
    """Return what others took from a rank in a window, as a fraction of one of its cores; None if it is not counted.

    Others are the hypervisor, and other processes while a thread of the rank was ready to run: what they take while it
    waits for other ranks costs nothing, and depends on the rate. If ranks share cores, or a program keeps the cores of
    emulated nodes awake, only the hypervisor counts. Less than a tick of each core, added up as independent errors,
    is nothing.

    cores: of the rank. One slow core delays all of them, so the fraction is that of one core.
    """
    if core_use is None or core_use.wall_s <= 0:
        return None
    preempted_s = 0.0 if ranks_share_cores else max(0.0, core_use.busy_s - core_use.own_s)
    if core_use.delay_s is not None:
        preempted_s = min(preempted_s, core_use.delay_s)
    return max(0.0, preempted_s + core_use.steal_s - _TICK_S * math.sqrt(cores)) / core_use.wall_s


def largest(fractions: Iterable[float | None]) -> float | None:
    """Return the largest disturbance among those of windows of a round, whose slowest rank counts; None without any."""
    return max((fraction for fraction in fractions if fraction is not None), default=None)


@dataclass(frozen=True)
class Selection:
    """The rounds of a launch that count, ascending, and the disturbance of all its rounds."""

    counting: tuple[int, ...]
    disturbances: Disturbances
    bound: float = math.inf  # of the disturbance of a round that counts, where enough of them keep it

    @property
    def left_out(self) -> list[float]:
        """Return the disturbances of the rounds that do not count."""
        return [d for number, d in self.disturbances.items() if d is not None and number not in self.counting]

    @property
    def remaining(self) -> float:
        """Return the largest disturbance of a round that counts."""
        return largest(self.disturbances[number] for number in self.counting) or 0.0


def select(disturbances: Disturbances, precision_fraction: float | None) -> Selection:
    """Return the rounds that count: those in which others took at most the requested precision, of one core.

    On a machine that is never quiet, where these are fewer than half of the rounds and too few for an interval, the
    least disturbed half counts. Rounds without counters count, and all rounds if no precision was requested.
    """
    bound = math.inf if precision_fraction is None else precision_fraction
    counting = [number for number, disturbance in disturbances.items() if (disturbance or 0.0) <= bound]
    half = math.ceil(len(disturbances) / 2)
    if len(counting) < min(half, _FEWEST):
        counting = sorted(disturbances, key=lambda number: (disturbances[number] or 0.0, number))[:half]
    return Selection(tuple(sorted(counting)), disturbances, bound)


def run_selection(run: RunRecord) -> Selection:
    """Return which rounds of a launch count."""
    shared = run.cores_shared or run.emulated
    fractions: dict[int, list[float | None]] = {}
    for rank in run.ranks:
        for window in rank.windows:
            fraction = window_disturbance(window.cores, max(1, len(rank.cores)), shared)
            fractions.setdefault(window.round, []).append(fraction)
    by_round = {number: largest(fractions[number]) for number in sorted(fractions)}
    return select(by_round, run.config["measure"].get("precision_fraction"))


def selection_text(selections: Iterable[Selection]) -> str:
    """Return how many rounds of some launches do not count, and why: "7 of 60 rounds left out: ...".

    Also what others took in rounds that count although that is beyond the bound. "" if there is neither.
    """
    launches = list(selections)
    left_out = [fraction for selection in launches for fraction in selection.left_out]
    remaining = f"up to {100 * max((s.remaining for s in launches), default=0.0):.2g} %"
    beyond = any(selection.remaining > selection.bound for selection in launches)
    if not left_out:
        return f"others took {remaining} of a core in rounds that count, as too few are quiet" if beyond else ""
    rounds = sum(len(selection.disturbances) for selection in launches)
    least, most = (f"{100 * fraction:.2g}" for fraction in (min(left_out), max(left_out)))
    span = most if least == most else f"{least} to {most}"
    busy = beyond or max(selection.remaining for selection in launches) > min(left_out) / 2
    text = f"{len(left_out)} of {rounds} rounds left out: others took {span} % of a core"
    return f"{text}, and {remaining} in those that count" if busy else text
