"""Checks of what the kernel counted on the cores of a rank: whole ticks, and no more of them than there was time."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.table.checks.contradiction import Contradiction, check, off
from analysis.thresholds import limit
from train.record.record import CoreUse, Rank, RunRecord

# User, nice and system time make up the time of all processes. Each is cut to whole ticks at both ends, and the kernel
# adds to them at its own tick.
_TICKS_MORE = 3 + 1


def _counted(rank: Rank) -> Iterator[tuple[str, CoreUse]]:
    """What was counted around the timed steps of a rank, or around each of its windows, and where."""
    if rank.timed_cores:
        yield f"rank {rank.rank}", rank.timed_cores
    for window in rank.windows:
        if window.cores:
            yield f"rank {rank.rank}, round {window.round}, arm {window.arm}", window.cores


@check
def counters_and_cores(run: RunRecord) -> Iterator[Contradiction]:
    """The cores of a rank did not work for longer than the span in which they were counted."""
    for rank in run.ranks:
        ticks_s = _TICKS_MORE * limit("tick_s") * len(rank.cores)
        for where, use in _counted(rank) if rank.cores else ():
            most_s = len(rank.cores) * use.wall_s
            by_whom = {"this rank": use.own_s, "all processes": use.busy_s, "a hypervisor": use.steal_s}
            by, longest_s = max(by_whom.items(), key=lambda one: one[1])
            if longest_s > most_s * (1 + limit("counted_more")) + ticks_s:
                yield Contradiction(
                    "counters_and_cores", f"{where}: {longest_s:.6g} s of core time for {by}",
                    f"{len(rank.cores)} cores in {use.wall_s:.6g} s have {most_s:.6g} s", off(longest_s, most_s),
                )  # fmt: skip


@check
def whole_ticks(run: RunRecord) -> Iterator[Contradiction]:
    """The kernel counts the time of cores in whole ticks: another number was not read, but computed."""
    for rank in run.ranks:
        for where, use in _counted(rank):
            for name, time_s in (("busy_s", use.busy_s), ("steal_s", use.steal_s)):
                ticks = time_s / limit("tick_s")
                if abs(ticks - round(ticks)) * limit("tick_s") > limit("tick_rounding_s"):
                    yield Contradiction(
                        "whole_ticks", f"{where}: {name} {time_s:.9g} s", f"ticks of {limit('tick_s'):g} s are counted"
                    )
