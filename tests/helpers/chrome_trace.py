"""Checks of traces for Perfetto and chrome://tracing, by Google's "Trace Event Format" of 2016."""

from typing import Any

_REQUIRED = {"X": {"ts", "dur"}, "i": {"ts", "s"}, "M": {"args"}}
_ROUNDING_US = 0.002


def check(document: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the events of a trace; assert their fields, that times ascend, and that a thread's events are nested."""
    assert document["displayTimeUnit"] in ("ms", "ns")
    events = document["traceEvents"]
    assert events
    for event in events:
        assert _REQUIRED[event["ph"]] | {"name", "pid", "tid"} <= event.keys(), event
        assert isinstance(event["pid"], int)
        assert isinstance(event["tid"], int)
        assert event["name"]
        assert event.get("ts", 0) >= 0
        assert event.get("dur", 0) >= 0
        assert event.get("s", "t") in ("g", "p", "t")
    times = [event["ts"] for event in events if event["ph"] != "M"]
    assert times == sorted(times)
    _check_named(events)
    _check_nested([event for event in events if event["ph"] == "X"])
    return events


def _check_named(events: list[dict[str, Any]]) -> None:
    """Assert that every process and every thread has one name."""
    for metadata, keys in (("process_name", ("pid",)), ("thread_name", ("pid", "tid"))):
        named = [tuple(event[key] for key in keys) for event in events if event["name"] == metadata]
        assert len(named) == len(set(named))
        assert {tuple(event[key] for key in keys) for event in events if event["ph"] != "M"} <= set(named)


def _check_nested(complete: list[dict[str, Any]]) -> None:
    """Assert that an event begins after the earlier events of its thread have ended, or ends before they do."""
    open_ends: dict[tuple[int, int], list[float]] = {}
    for event in complete:
        ends = open_ends.setdefault((event["pid"], event["tid"]), [])
        while ends and ends[-1] <= event["ts"] + _ROUNDING_US:
            ends.pop()
        end = event["ts"] + event["dur"]
        assert not ends or end <= ends[-1] + _ROUNDING_US, event
        ends.append(end)
