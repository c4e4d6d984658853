"""Checks of what the kernel counted on the cores of a rank: whole ticks, and no more of them than there was time."""

from __future__ import annotations

from collections.abc import Iterator

from analysis.table.checks.contradiction import Contradiction, check, off
from analysis.table.checks.kinds import called, core_uses
from analysis.thresholds import limit
from train.record.record import RunRecord

# User, nice and system time make up the time of all processes. Each is cut to whole ticks at both ends, and the kernel
# adds to them at its own tick.
_TICKS_MORE = 3 + 1


@check
def counters_and_cores(run: RunRecord) -> Iterator[Contradiction]:
    """The cores of a rank did not work for longer than the span in which they were counted."""
    more, ticks_s = 1 + limit("counted_more"), _TICKS_MORE * limit("tick_s")
    for rank, window, use in core_uses(run):
        cores, longest_s = len(rank.cores), max(use.own_s, use.busy_s, use.steal_s)
        most_s = cores * use.wall_s
        if cores and longest_s > most_s * more + ticks_s * cores:
            by_whom = {"this rank": use.own_s, "all processes": use.busy_s, "a hypervisor": use.steal_s}
            by, _ = max(by_whom.items(), key=lambda one: one[1])
            yield Contradiction(
                "counters_and_cores", f"{called(rank, window)}: {longest_s:.6g} s of core time for {by}",
                f"{cores} cores in {use.wall_s:.6g} s have {most_s:.6g} s", off(longest_s, most_s),
            )  # fmt: skip


@check
def whole_ticks(run: RunRecord) -> Iterator[Contradiction]:
    """The kernel counts the time of cores in whole ticks: another number was not read, but computed."""
    tick_s, rounding_s = limit("tick_s"), limit("tick_rounding_s")
    for rank, window, use in core_uses(run):
        for name, time_s in (("busy_s", use.busy_s), ("steal_s", use.steal_s)):
            ticks = time_s / tick_s
            if abs(ticks - round(ticks)) * tick_s > rounding_s:
                yield Contradiction(
                    "whole_ticks", f"{called(rank, window)}: {name} {time_s:.9g} s",
                    f"ticks of {tick_s:g} s are counted",
                )  # fmt: skip
