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
    """Rank 0 learned that a rank was ready to exchange a tensor. Told only where that is not cached: the first time."""

    tensor: str
    rank: int
    at_s: float


@dataclass(frozen=True)
class Told:
    """What Horovod's timeline tells."""

    spans: list[Span]
    ready: list[Ready]


def read(path: Path) -> Told:
    """What the file at `path` tells. Raises TableError where it is missing or not whole."""
    try:
        return told(json.loads(path.read_bytes()))
    except OSError as error:
        raise TableError(
            f"{path}: {error.strerror}; rank 0 writes it, and the folder must be one that it can"
        ) from error
    except (ValueError, LookupError, TypeError) as error:
        reason = f"not a whole timeline of Horovod ({error}); FORCE=1 measures again"
        raise TableError(f"{path}: {reason}") from error


def told(events: list[dict[str, Any]]) -> Told:
    """What these events tell, in the order of their ends. Raises LookupError where one ends that has not begun.

    What had not ended when the file was closed is left out. LookupError too, where nothing tells when they began.
    """
    starts = [event["args"][_START] for event in events if _START in event.get("args", {})]
    if not starts:
        raise LookupError(f"no {_START} in it")
    tensors = {event["pid"]: event["args"]["name"] for event in events if "name" in event.get("args", {})}
    open_of: dict[int, list[dict[str, Any]]] = {}
    found = Told([], [])
    for event in events:
        if event["ph"] == "B":
            open_of.setdefault(event["pid"], []).append(event)
        elif event["ph"] == "E":
            begun = open_of[event["pid"]].pop()
            kind = _kind(begun["name"], len(open_of[event["pid"]]))
            begin_s, end_s = ((starts[0] + one["ts"]) / 1e6 for one in (begun, event))
            found.spans.append(Span(tensors[event["pid"]], begun["name"], begin_s, end_s, kind))
        elif event["ph"] == "X":
            found.ready.append(Ready(tensors[event["pid"]], int(event["name"]), (starts[0] + event["ts"]) / 1e6))
    return found


def _kind(name: str, depth: int) -> Kind:
    """What a state is; depth: 0 for what contains others, as ALLREDUCE contains GLOO_ALLREDUCE."""
    if depth == 0:
        return "negotiation" if name.startswith("NEGOTIATE_") else "operation"
    return "queue" if name in _QUEUE else "copy" if name.startswith(_COPY) else "wire"
