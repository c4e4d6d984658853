"""Launches with a timeline: the events of all ranks, on the clock of rank 0's host, and the parts of its steps.

Horovod's timeline has the states of each tensor on rank 0: horovod/common/timeline.cc of Horovod 0.28,
Chrome's trace events, a "process" for each tensor. Times are microseconds since the timeline began, which its first
event gives in microseconds since the epoch.
"""

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import msgspec
import numpy as np

from analysis import TableError
from analysis.table.record_rows import has_timeline
from common import bounded_files as bounded
from record import protocol
from record import schema as record
from record.schema import PHASES, Rank, RunRecord, StepAt

TimedEvent = tuple[str, float, float]  # its name, begin and end [s]


class ProfiledOperation(NamedTuple):
    """An operation of TensorFlow, or of a library that it calls."""

    thread: str
    name: str
    begin_us: float  # since `RankTimes.profiled_at`
    duration_us: float


@dataclass(frozen=True)
class RankTimes:
    """The times of one rank, in seconds since the epoch by the clock of rank 0's host."""

    rank: Rank
    phases: list[TimedEvent]
    steps: list[StepAt]
    profiled_at: float
    operations: list[ProfiledOperation]
    clock_error_s: float | None  # at most; None: not known, its own clock was taken


@dataclass(frozen=True)
class TracedLaunch:
    """One launch: its record, the times of its ranks, and Horovod's timeline."""

    run: RunRecord
    ranks: list[RankTimes]
    horovod: "HorovodTimeline"


def find_launches(records: Mapping[str, RunRecord], models: list[str] | None = None) -> list[Path]:
    """Return the paths, in order, of the newest complete record with a timeline of each run.

    records: by path. models: only these.
    """
    newest: dict[tuple[str, str, str, int], Path] = {}
    for path, run in sorted(records.items(), key=lambda item: (item[1].generation, item[0])):
        has_exchange = run.status == "complete" and has_timeline(run) and run.config["distribution"]["allreduce"]
        if has_exchange and (models is None or run.config["model"]["name"] in models):
            newest[run.experiment, run.point, run.config_hash, run.repeat] = Path(path)
    return sorted(newest.values())


def load_launch(path: Path, run: RunRecord) -> TracedLaunch:
    """Load the launch whose record `run` is at `path`.

    Raises TableError if a file next to it is missing, changed or damaged.
    """
    file = protocol.horovod_timeline_path(path.parent)
    ranks = [_rank_times(rank, path.parent, run) for rank in run.ranks]
    return TracedLaunch(run, ranks, read_horovod(_content(file, run), file))


def _content(path: Path, run: RunRecord) -> bytes:
    try:
        content = bounded.read(path)
    except OSError as error:
        raise TableError(f"{path}: {error.strerror}; a launch with a timeline leaves it beside its record") from error
    if hashlib.sha256(content).hexdigest() != run.attachments.get(path.name):
        raise TableError(f"{path}: not the file of the record beside it: it was changed, or copied from another run")
    return content


class _Profile(msgspec.Struct):
    began_at: float
    operations: list[ProfiledOperation]


def _rank_times(rank: Rank, folder: Path, run: RunRecord) -> RankTimes:
    if rank.timeline is None:
        raise TableError(f"{folder / record.RECORD_NAME}: rank {rank.rank} has no times of its steps")
    ahead_s, path = rank.timeline.ahead_s or 0.0, protocol.operations_path(folder, rank.rank)
    try:
        text = bounded.check_json(bounded.unpacked(_content(path, run)))
        profile = msgspec.json.decode(text, type=_Profile)
    except (OSError, ValueError) as error:
        raise TableError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    return RankTimes(
        rank=rank,
        phases=list(_phases(rank, rank.timeline.began_at + ahead_s)),
        steps=[_moved(step, ahead_s) for step in rank.timeline.steps],
        profiled_at=profile.began_at + ahead_s,
        operations=profile.operations,
        clock_error_s=rank.timeline.error_s,
    )


def _phases(rank: Rank, began_s: float) -> Iterator[TimedEvent]:
    """Yield the phases of a rank; began_s: when its process began, the end of the first one."""
    at = began_s - rank.phases_s.get("start", 0.0)
    for name in (name for name in PHASES if name in rank.phases_s):
        yield name, at, at + rank.phases_s[name]
        at += rank.phases_s[name]


def _moved(step: StepAt, by_s: float) -> StepAt:
    computed_at = None if step.computed_at is None else step.computed_at + by_s
    return replace(step, begun_at=step.begun_at + by_s, computed_at=computed_at, ended_at=step.ended_at + by_s)


SpanKind = Literal["negotiation", "operation", "queue", "copy", "wire"]

_START = "start_time_since_epoch_in_micros"
_QUEUE = ("QUEUE", "WAIT_FOR_DATA", "WAIT_FOR_OTHER_TENSOR_DATA")
_COPY = ("MEMCPY_", "INIT_FUSION_BUFFER", "ALLOCATE_", "COPY_")


@dataclass(frozen=True)
class Span:
    """A tensor was in one state, in seconds since the epoch by the clock of rank 0's host."""

    tensor: str
    name: str  # as Horovod calls it
    begin_s: float
    end_s: float
    kind: SpanKind


@dataclass(frozen=True)
class Ready:
    """Rank 0 learned that a rank was ready to exchange a tensor. Only the first time: afterwards that is cached."""

    tensor: str
    rank: int
    at_s: float


@dataclass(frozen=True)
class HorovodTimeline:
    """The states of all tensors, and when ranks were ready."""

    spans: list[Span]
    ready: list[Ready]


def read_horovod(content: bytes, path: Path) -> HorovodTimeline:
    """Return the timeline that Horovod wrote to a file. Raises TableError if it is not whole."""
    try:
        return horovod_timeline(msgspec.json.decode(bounded.check_json(content), type=list[dict[str, Any]]))
    except (ValueError, LookupError, TypeError, AttributeError) as error:
        reason = f"not a whole timeline of Horovod ({error}); FORCE=1 measures again"
        raise TableError(f"{path}: {reason}") from error


def horovod_timeline(events: list[dict[str, Any]]) -> HorovodTimeline:
    """Return the states in these events, in the order of their ends, without those that have not ended.

    Raises LookupError if one ends that has not begun, or if no event has the time of their begin.
    """
    starts = [event["args"][_START] for event in events if _START in event.get("args", {})]
    if not starts:
        raise LookupError(f"no {_START} in it")
    tensors = {event["pid"]: event["args"]["name"] for event in events if "name" in event.get("args", {})}
    under_way: dict[int, list[dict[str, Any]]] = {}
    result = HorovodTimeline([], [])
    for event in events:
        if event["ph"] == "B":
            under_way.setdefault(event["pid"], []).append(event)
        elif event["ph"] == "E":
            begin = under_way[event["pid"]].pop()
            kind = _kind(begin["name"], len(under_way[event["pid"]]))
            begin_s, end_s = ((starts[0] + e["ts"]) / 1e6 for e in (begin, event))
            result.spans.append(Span(tensors[event["pid"]], begin["name"], begin_s, end_s, kind))
        elif event["ph"] == "X":
            result.ready.append(Ready(tensors[event["pid"]], int(event["name"]), (starts[0] + event["ts"]) / 1e6))
    return result


def _kind(name: str, depth: int) -> SpanKind:
    """Return the kind of a state; depth: 0 for one that contains others, as ALLREDUCE contains GLOO_ALLREDUCE."""
    if depth == 0:
        return "negotiation" if name.startswith("NEGOTIATE_") else "operation"
    return "queue" if name in _QUEUE else "copy" if name.startswith(_COPY) else "wire"


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
class StepPart:
    """The time of one part of a step, and the part of it during which rank 0 computed, in s."""

    time_s: float
    overlapped_s: float = 0.0


TimedSteps = Sequence[dict[str, StepPart]]  # the parts of each timed step


def exchange_spans(step: StepAt, spans: Sequence[Span]) -> list[Span]:
    """Return the spans of the exchange of a step: those that end in it.

    A barrier after the last step may begin in it.
    """
    return [span for span in spans if step.begun_at < span.end_s <= step.ended_at]


def timed_steps(times: RankTimes) -> list[StepAt]:
    """Return the timed steps of a rank."""
    return [step for step in times.steps if step.phase == "timed"]


def steps_of_rank_0(launch: TracedLaunch) -> list[dict[str, StepPart]]:
    """Return the parts of each timed step; none where a GPU computes: gradients then have no times."""
    steps = zip(timed_steps(launch.ranks[0]), *_ready_s(launch), strict=False)
    return [step_parts(step, ready_s, launch.horovod.spans) for step, *ready_s in steps if ready_s]


def has_part(steps: TimedSteps, name: str) -> bool:
    """Return whether any step had this part."""
    return any(step[name].time_s for step in steps)


def _ready_s(launch: TracedLaunch) -> list[list[float]]:
    """Return when the gradients of each rank were ready, timed step by timed step; none where a GPU computes."""
    timed = [timed_steps(times) for times in launch.ranks]
    ready = [[step.computed_at for step in steps if step.computed_at is not None] for steps in timed]
    return ready if sum(map(len, ready)) == sum(map(len, timed)) else []


def steps_by_rank(launch: TracedLaunch) -> Iterator[tuple[RankTimes, list[float], list[float]]]:
    """Yield for each rank and timed step how long it computed, and how long after the first rank it was ready, in s.

    The lists are empty where a GPU computes.
    """
    ready = _ready_s(launch) or [[] for _ in launch.ranks]
    first = [min(at) for at in zip(*ready, strict=True)]
    for times, at_s in zip(launch.ranks, ready, strict=True):
        computing_s = [at - step.begun_at for at, step in zip(at_s, timed_steps(times), strict=False)]
        yield times, computing_s, [at - since for at, since in zip(at_s, first, strict=True)]


def step_parts(step: StepAt, ready_s: Sequence[float], spans: Sequence[Span]) -> dict[str, StepPart]:
    """Return the parts of one step of rank 0.

    With one tensor `computing`, `cycle`, `negotiation`, `queue`, `copy`, `wire`, `unmarked` and `after`, less what of
    them overlapped computing, add up to the step: where another rank is ready first, negotiation begins while rank 0
    still computes. With several tensors, one may be negotiated while another is on the wire.

    ready_s: when the local gradients of each rank were ready, rank 0 first.
    spans: of all tensors.
    """
    begin, end, ready = step.begun_at, step.ended_at, ready_s[0]
    exchange = exchange_spans(step, spans)
    last = max([ready, *(span.end_s for span in exchange)])
    # The moments at which something begins or ends: between two of them nothing changes.
    moments = [begin, end, last, *ready_s, *(at for span in exchange for at in (span.begin_s, span.end_s))]
    edges = np.unique(np.clip(moments, begin, end))
    middle, time_s = (edges[1:] + edges[:-1]) / 2, np.diff(edges)
    under_way = {kind: np.zeros(middle.size, bool) for kind in get_args(SpanKind)}
    for span in exchange:
        under_way[span.kind] |= (span.begin_s < middle) & (middle < span.end_s)
    any_kind = np.logical_or.reduce([*under_way.values()])
    marked = np.logical_or.reduce([under_way[kind] for kind in ("queue", "copy", "wire")])
    under_way["unmarked"] = under_way.pop("operation") & ~marked
    under_way["late"] = under_way["negotiation"] & (middle < max(ready_s))
    under_way["cycle"] = (middle > ready) & (middle < last) & ~any_kind
    return {
        part: StepPart(float(time_s[when].sum()), float(time_s[when & (middle < ready)].sum()))
        for part, when in under_way.items()
    } | {"computing": StepPart(ready - begin), "after": StepPart(end - last), "step": StepPart(end - begin)}
