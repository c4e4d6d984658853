"""Checks of a record on reading: its ranks, steps and windows, without which no rate can be computed.

Whether a record is what its ranks wrote is checked elsewhere, with the files beside it (`analysis.verify`).
"""

from collections import Counter
from collections.abc import Iterator

from record import recorded_config
from record.rounds import CONTROL_EVERY, ranks_of
from record.schema import Rank, RunRecord, Window

_CLOCKS, _TICKS_S = 1.02, 0.04  # two clocks differ by 500 ppm at most (adjtimex(2)); ticks are of 10 ms
_ROUNDING_S = 1e-4  # phases are differences of seconds since 1970, which doubles resolve to 0.24 microseconds


def faults(run: RunRecord) -> list[str]:
    """Return why the numbers of a record cannot be used, as text; none if they can.

    Raises LookupError, TypeError or ValueError if the record lacks a field that every record of its kind has.
    """
    if beyond := [*_rounds(run)]:
        return beyond
    complete = [*_ranks(run), *_steps(run), *_windows(run)] if run.status == "complete" else []
    return [*complete, *_impossible(run), *_times(run)]


def _rounds(run: RunRecord) -> Iterator[str]:
    """Yield ranks with a round of a higher number than windows allow: lists of rounds would have no end."""
    for rank in run.ranks:
        last = max((window.round for window in (*rank.windows, *rank.exchanges)), default=0)
        if last and last >= len(rank.windows) + len(rank.exchanges):
            yield f"rank {rank.rank}: round {last}, of {len(rank.windows)} windows"


def _ranks(run: RunRecord) -> Iterator[str]:
    """Yield a wrong number of ranks: a job has nodes x ranks_per_node."""
    expected = run.config["nodes"] * run.config["ranks_per_node"]
    expected = sum(group["ranks"] for group in run.config.get("rank_groups") or []) or expected
    processes = 1 if run.config["distribution"]["backend"] in recorded_config.TOWERS else expected
    if run.workers != expected or [rank.rank for rank in run.ranks] != list(range(processes)):
        yield f"{run.workers} ranks numbered {[rank.rank for rank in run.ranks]}, but {expected} are configured"


def _steps(run: RunRecord) -> Iterator[str]:
    """Yield ranks with other numbers of steps than rank 0, or with other numbers than configured."""
    if run.printed:
        return
    steps_by_rank = {rank.rank: (len(rank.step_times_s), len(rank.allreduces)) for rank in run.ranks}
    if len({*steps_by_rank.values()}) > 1:
        yield f"timed steps and allreduces differ between ranks: {steps_by_rank}"
    several = run.config.get("rounds") or run.config.get("allreduce_sweep") is not None or run.epochs
    steps, expected = len(run.ranks[0].step_times_s), run.config["measure"]["timed_steps"]
    if not several and steps != expected:
        yield f"{steps} timed steps, but measure.timed_steps={expected}"
    for rank in run.ranks:
        holders: list[Rank | Window] = [rank, *rank.windows]
        for holder in holders:
            if holder.compute_times_s and len(holder.compute_times_s) != len(holder.step_times_s):
                counts = len(holder.compute_times_s), len(holder.step_times_s)
                yield f"rank {rank.rank}: {counts[0]} compute_times_s, {counts[1]} steps"


def _windows(run: RunRecord) -> Iterator[str]:
    """Yield windows that a rank lacks, or has twice: each round has every arm once, on the ranks of the arm.

    Controls may be in the first of every CONTROL_EVERY rounds alone.
    """
    arms = run.config.get("rounds") or []
    taken = {index for index, arm in enumerate(arms) if arm["name"] not in run.arms_left_out}
    numbers = range(1 + max((window.round for rank in run.ranks for window in rank.windows), default=-1))
    for rank in run.ranks if arms else ():
        own = [index for index in taken if rank.rank in ranks_of(run.config, index)]
        turns = Counter((window.round, window.arm) for window in rank.windows)
        every = [(number, index) for number in numbers for index in own]
        sparse = [turn for turn in every if turn[0] % CONTROL_EVERY == 0 or arms[turn[1]]["role"] != "control"]
        if turns not in (Counter(every), Counter(sparse)):
            yield f"rank {rank.rank}: its windows are not one of each of its arms in each of {len(numbers)} rounds"


def _impossible(run: RunRecord) -> Iterator[str]:
    """Yield facts that exclude each other, and counters beyond what the cores had."""
    if run.status == "complete" and run.failure:
        yield f"complete, but it failed: {run.failure.reason}"
    if run.node_quotas and not run.emulated:
        yield f"a quota of node {run.node_quotas[0].node}, but none is configured"
    if run.config.get("rank_groups_at_once") and not run.config.get("rank_groups"):
        yield "rank_groups_at_once, but no rank_groups"
    for rank in run.ranks:
        cores = len(rank.cores)
        for counted in (rank.timed_cores, *(window.cores for window in rank.windows)):
            most_s = cores * (_CLOCKS * counted.wall_s + _TICKS_S) if counted else 0.0
            if counted and cores and (counted.delay_s or 0.0) > most_s:
                yield f"rank {rank.rank}: {counted.delay_s:.6g} s without one of its cores, of {most_s:.6g} s at most"


def _times(run: RunRecord) -> Iterator[str]:
    """Yield negative times, and steps or windows that are longer than what contains them."""
    for rank in run.ranks:
        timed_s = rank.phases_s.get("timed", 0.0)
        name = f"rank {rank.rank}"
        if min(rank.phases_s.values(), default=0.0) < 0:
            yield f"{name}: a phase takes negative time"
        if rank.windows:
            yield from _within(f"{name}: windows", [window.window_s for window in rank.windows], timed_s)
        elif run.status == "complete":
            yield from _within(f"{name}: timed steps", rank.step_times_s, timed_s)
        for window in rank.windows:
            label = f"{name}, round {window.round}, arm {window.arm}: steps"
            yield from _within(label, window.step_times_s, window.window_s)


def _within(name: str, times_s: list[float], whole_s: float) -> Iterator[str]:
    if min(times_s, default=1.0) <= 0 or sum(times_s) > whole_s + _ROUNDING_S:
        yield f"{name} add up to {sum(times_s):.6g} s, within {whole_s:.6g} s"
