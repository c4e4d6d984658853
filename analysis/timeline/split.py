"""The parts of each timed step of rank 0, in seconds, and when the gradients of each rank were ready.

Horovod writes down the exchange as rank 0 saw it.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.timeline.launch import Launch, RankTimes, Span
from train.record.record import StepAt

Times = list[tuple[float, float]]  # begin and end of each, apart from each other, ascending

# The parts of a step, and their labels.
PARTS = {
    "computing": "computing, input included",
    "cycle": "waiting for Horovod",
    "negotiation": "negotiation",
    "late": "  of it, before the last rank's gradients were ready",
    "queue": "queue",
    "copy": "copy",
    "wire": "wire",
    "unmarked": "in Horovod's operation, not marked",
    "after": "after the exchange: update of the weights",
    "step": "step",
}
EXCHANGE = ("negotiation", "late", "queue", "copy", "wire", "unmarked")  # parts that a backend may not have


@dataclass(frozen=True)
class Part:
    """How long one part of a step took, and how much of that rank 0 computed meanwhile. In s."""

    time_s: float
    overlapped_s: float = 0.0


Steps = Sequence[dict[str, Part]]  # the parts of each timed step


@dataclass(frozen=True)
class RankSteps:
    """For each timed step of a rank: how long it computed, and how long after the first rank it was ready. In s."""

    times: RankTimes
    computing_s: list[float]
    behind_s: list[float]


def union(times: Iterable[tuple[float, float]]) -> Times:
    """Return when any of these is under way."""
    merged: Times = []
    for begin, end in sorted(times):
        if merged and begin <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], end))
        else:
            merged.append((begin, end))
    return merged


def without(times: Times, others: Times) -> Times:
    """Return when one of `times` is under way and none of `others`."""
    remaining: Times = []
    for begin, end in times:
        at = begin
        for other_begin, other_end in others:
            if other_end > at and other_begin < end:
                remaining += [(at, other_begin)] if other_begin > at else []
                at = max(at, other_end)
        remaining += [(at, end)] if at < end else []
    return remaining


def within(times: Times, begin: float, end: float) -> float:
    """Return how long these are under way between two moments."""
    return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in times)


def exchange_spans(step: StepAt, spans: Sequence[Span]) -> list[Span]:
    """Return the spans of the exchange of a step: those that end in it.

    A barrier after the last step may begin in it.
    """
    return [span for span in spans if step.begun_at < span.end_s <= step.ended_at]


def timed_steps(times: RankTimes) -> list[StepAt]:
    """Return the timed steps of a rank."""
    return [step for step in times.steps if step.phase == "timed"]


def steps_of_rank_0(launch: Launch) -> list[dict[str, Part]]:
    """Return the parts of each timed step; none where a GPU computes: gradients then have no times."""
    result = []
    for step in zip(*map(timed_steps, launch.ranks), strict=True):
        ready_s = [on_rank.computed_at for on_rank in step if on_rank.computed_at is not None]
        if len(ready_s) < len(step):
            return []
        result.append(step_parts(step[0], ready_s, launch.horovod.spans))
    return result


def has_part(steps: Steps, name: str) -> bool:
    """Return whether any step had this part."""
    return any(step[name].time_s for step in steps)


def steps_by_rank(launch: Launch) -> list[RankSteps]:
    """Return the timed steps of each rank compared with the others; empty lists where a GPU computes."""
    timed = [timed_steps(times) for times in launch.ranks]
    ready = [[step.computed_at for step in steps if step.computed_at is not None] for steps in timed]
    if any(len(at_s) < len(steps) for at_s, steps in zip(ready, timed, strict=True)):
        return [RankSteps(times, [], []) for times in launch.ranks]
    first = [min(at) for at in zip(*ready, strict=True)]
    return [
        RankSteps(
            times,
            [at - step.begun_at for at, step in zip(at_s, steps, strict=True)],
            [at - since for at, since in zip(at_s, first, strict=True)],
        )
        for times, steps, at_s in zip(launch.ranks, timed, ready, strict=True)
    ]


def step_parts(step: StepAt, ready_s: Sequence[float], spans: Sequence[Span]) -> dict[str, Part]:
    """Return the parts of one step of rank 0.

    With one tensor `computing`, `cycle`, `negotiation`, `queue`, `copy`, `wire`, `unmarked` and `after`, less what of
    them overlapped computing, add up to the step: where another rank is ready first, negotiation begins while rank 0
    still computes. With several tensors, one may be negotiated while another is on the wire.

    ready_s: when the local gradients of each rank were ready, rank 0 first.
    spans: of all tensors.
    """
    begin, end, ready = step.begun_at, step.ended_at, ready_s[0]
    exchange_of_step = exchange_spans(step, spans)
    times = {kind: union((s.begin_s, s.end_s) for s in exchange_of_step if s.kind == kind)
             for kind in ("negotiation", "operation", "queue", "copy", "wire")}  # fmt: skip
    marked = union(one for kind in ("queue", "copy", "wire") for one in times[kind])
    times["unmarked"] = without(times.pop("operation"), marked)
    parts = {kind: Part(within(when, begin, end), within(when, begin, ready)) for kind, when in times.items()}
    exchange = union(one for when in times.values() for one in when)
    last = max(ready, exchange[-1][1]) if exchange else ready
    last_ready = max(ready_s)  # not before that of rank 0
    return parts | {
        "computing": Part(ready - begin),
        "cycle": Part(within(without([(ready, last)], exchange), begin, end)),
        "late": Part(within(times["negotiation"], begin, last_ready), within(times["negotiation"], begin, ready)),
        "after": Part(end - last),
        "step": Part(end - begin),
    }
