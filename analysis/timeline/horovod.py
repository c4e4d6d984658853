"""Horovod's own timeline: what happened to each tensor, as rank 0 saw it.

Horovod 0.28, horovod/common/timeline.cc: Chrome's trace events, a "process" for each tensor. Times are microseconds
since the timeline began, which its first event gives in microseconds since the epoch.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from analysis import TableError

Kind = Literal["negotiation", "operation", "queue", "copy", "wire"]

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
    kind: Kind


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


def read(path: Path) -> HorovodTimeline:
    """Read the timeline that Horovod wrote. Raises TableError where the file is missing or not whole."""
    try:
        return timeline(json.loads(path.read_bytes()))
    except OSError as error:
        raise TableError(
            f"{path}: {error.strerror}; rank 0 writes it, and the folder must be one that it can"
        ) from error
    except (ValueError, LookupError, TypeError) as error:
        reason = f"not a whole timeline of Horovod ({error}); FORCE=1 measures again"
        raise TableError(f"{path}: {reason}") from error


def timeline(events: list[dict[str, Any]]) -> HorovodTimeline:
    """Return the states in these events, in the order of their ends, without those that have not ended.

    Raises LookupError where one ends that has not begun, or where no event has the time of their begin.
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
            begin_s, end_s = ((starts[0] + one["ts"]) / 1e6 for one in (begin, event))
            result.spans.append(Span(tensors[event["pid"]], begin["name"], begin_s, end_s, kind))
        elif event["ph"] == "X":
            result.ready.append(Ready(tensors[event["pid"]], int(event["name"]), (starts[0] + event["ts"]) / 1e6))
    return result


def _kind(name: str, depth: int) -> Kind:
    """Return the kind of a state; depth: 0 for one that contains others, as ALLREDUCE contains GLOO_ALLREDUCE."""
    if depth == 0:
        return "negotiation" if name.startswith("NEGOTIATE_") else "operation"
    return "queue" if name in _QUEUE else "copy" if name.startswith(_COPY) else "wire"
