"""The points of a summary as other tools read them: Extra-P, Prometheus (OpenMetrics), MLPerf's log.

Each takes the points as the JSON document of `summary` has them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

Points = Sequence[Mapping[str, Any]]
_IDENTITY = ("experiment", "model", "arm", "ranks", "nodes", "ranks_per_node", "batch_per_rank", "threads_per_rank")


def _numbers(point: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the known numbers of a point by name."""
    for name, number in point.items():
        if isinstance(number, Mapping) and number.get("value") is not None:
            yield name, number


def extrap(points: Points) -> str:
    """Return Extra-P's text format: one parameter, the ranks; a region for each series, a metric for each number."""
    sizes = sorted({point["ranks"] for point in points})
    lines = ["PARAMETER ranks", f"POINTS {' '.join(map(str, sizes))}"]
    values: dict[tuple[str, str], dict[int, float]] = {}
    for point in points:
        region = "_".join(filter(None, [point["model"], *point["series"].split()]))
        for name, number in _numbers(point):
            values.setdefault((region, name), {}).setdefault(point["ranks"], number["value"])
    for (region, name), by_size in values.items():
        if len(by_size) == len(sizes):  # Extra-P needs each number at each point
            lines += [f"REGION {region}", f"METRIC {name}", *(f"DATA {by_size[size]!r}" for size in sizes)]
    return "\n".join([*lines, ""])


def openmetrics(points: Points) -> str:
    """Return the text of OpenMetrics: a gauge for each number, and one for each end of its interval."""
    gauges: dict[str, list[str]] = {}
    for point in points:
        labels = {key: "" if point[key] is None else str(point[key]) for key in (*_IDENTITY, "series")}
        text = ",".join(f"{key}={json.dumps(value, ensure_ascii=False)}" for key, value in labels.items())
        for name, number in _numbers(point):
            for suffix, end in (("", "value"), ("_low", "low"), ("_high", "high")):
                if number[end] is not None:
                    gauges.setdefault(f"kit_{name}{suffix}", []).append(f"{{{text}}} {number[end]!r}")
    lines = [line for name, rows in gauges.items() for line in (f"# TYPE {name} gauge", *(name + row for row in rows))]
    return "\n".join([*lines, "# EOF", ""])


def mllog(points: Points) -> str:
    """Return lines of MLPerf's log: of each point its identity as metadata, and its numbers. They state no time."""
    lines = []
    for point in points:
        metadata = {"file": "", "lineno": 0} | {key: point[key] for key in _IDENTITY}
        for name, number in _numbers(point):
            event = {"namespace": "", "time_ms": 0, "event_type": "POINT_IN_TIME", "key": name}
            lines.append(f":::MLLOG {json.dumps(event | {'value': number['value'], 'metadata': metadata})}")
    return "\n".join([*lines, ""])


FORMATS: Mapping[str, Callable[[Points], str]] = {"extrap": extrap, "openmetrics": openmetrics, "mllog": mllog}
