"""What happened in each timed step, in seconds: of rank 0, whose view of the exchange Horovod writes down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from analysis.timeline.horovod import Span
from analysis.timeline.joined import Joined, OfRank
from train.record.record import StepAt

Times = list[tuple[float, float]]  # begin and end of each, apart from each other, ascending

# The parts of a step, and what they are called.
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
    """Of each timed step of a rank: how long it computed, and how long after the first rank it was ready. In s."""

    of: OfRank
    computing_s: list[float]
    behind_s: list[float]


def union(times: Iterable[tuple[float, float]]) -> Times:
    """When any of these is under way."""
    found: Times = []
    for begin, end in sorted(times):
        if found and begin <= found[-1][1]:
            found[-1] = (found[-1][0], max(found[-1][1], end))
        else:
            found.append((begin, end))
    return found


def without(times: Times, others: Times) -> Times:
    """When one of `times` is under way and none of `others`."""
    found: Times = []
    for begin, end in times:
        at = begin
        for other_begin, other_end in others:
            if other_end > at and other_begin < end:
                found += [(at, other_begin)] if other_begin > at else []
                at = max(at, other_end)
        found += [(at, end)] if at < end else []
    return found


def within(times: Times, begin: float, end: float) -> float:
    """How long these are under way between two moments."""
    return sum(max(0.0, min(end, until) - max(begin, since)) for since, until in times)


def of_exchange(step: StepAt, spans: Sequence[Span]) -> list[Span]:
    """What belongs to the exchange of a step: it ends in it. A barrier after the last step may begin in it."""
    return [span for span in spans if step.begun_at < span.end_s <= step.ended_at]


def timed(joined: Joined) -> list[dict[str, Part]]:
    """The parts of each timed step; none where a GPU computes: nobody knows there when gradients are ready."""
    found = []
    for step in zip(*map(timed_steps, joined.ranks), strict=True):
        ready_s = [of.computed_at for of in step if of.computed_at is not None]
        if len(ready_s) < len(step):
            return []
        found.append(of_step(step[0], ready_s, joined.told.spans))
    return found


def timed_steps(of: OfRank) -> list[StepAt]:
    """The timed steps of a rank."""
    return [step for step in of.steps if step.phase == "timed"]


def seen(steps: Steps, name: str) -> bool:
    """Whether any step had this part."""
    return any(step[name].time_s for step in steps)


def of_ranks(joined: Joined) -> list[RankSteps]:
    """The timed steps of each rank beside those of the others; empty lists where a GPU computes."""
    timed = [timed_steps(of) for of in joined.ranks]
    ready = [[step.computed_at for step in steps if step.computed_at is not None] for steps in timed]
    if any(len(at_s) < len(steps) for at_s, steps in zip(ready, timed, strict=True)):
        return [RankSteps(of, [], []) for of in joined.ranks]
    first = [min(at) for at in zip(*ready, strict=True)]
    return [
        RankSteps(
            of,
            [at - step.begun_at for at, step in zip(at_s, steps, strict=True)],
            [at - since for at, since in zip(at_s, first, strict=True)],
        )
        for of, steps, at_s in zip(joined.ranks, timed, ready, strict=True)
    ]


def of_step(step: StepAt, ready_s: Sequence[float], spans: Sequence[Span]) -> dict[str, Part]:
    """The parts of one step of rank 0.

    With one tensor `computing`, `cycle`, `negotiation`, `queue`, `copy`, `wire`, `unmarked` and `after`, less what of
    them overlapped computing, add up to the step: where another rank is ready first, negotiation begins while rank 0
    still computes. With several tensors, one may be negotiated while another is on the wire.

    ready_s: when the local gradients of each rank were ready, rank 0 first.
    spans: of all tensors.
    """
    begin, end, ready = step.begun_at, step.ended_at, ready_s[0]
    mine = of_exchange(step, spans)
    times = {kind: union((s.begin_s, s.end_s) for s in mine if s.kind == kind)
             for kind in ("negotiation", "operation", "queue", "copy", "wire")}  # fmt: skip
    marked = union(one for kind in ("queue", "copy", "wire") for one in times[kind])
    times["unmarked"] = without(times.pop("operation"), marked)
    found = {kind: Part(within(of, begin, end), within(of, begin, ready)) for kind, of in times.items()}
    exchange = union(one for of in times.values() for one in of)
    last = max(ready, exchange[-1][1]) if exchange else ready
    last_ready = max(ready_s)  # not before that of rank 0
    return found | {
        "computing": Part(ready - begin),
        "cycle": Part(within(without([(ready, last)], exchange), begin, end)),
        "late": Part(within(times["negotiation"], begin, last_ready), within(times["negotiation"], begin, ready)),
        "after": Part(end - last),
        "step": Part(end - begin),
    }
