"""The points of a summary as other tools read them: Extra-P, Prometheus (OpenMetrics), MLPerf's log, ReFrame's.

Each takes the points as the JSON document of `summary` has them.
"""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from analysis.table.swept_axis import SCALING

SummaryDocument = Sequence[Mapping[str, Any]]
_IDENTITY = ("experiment", "model", "arm", "ranks", "nodes", "ranks_per_node", "batch_per_rank", "threads_per_rank")


def _numbers(point: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the known numbers of a point by name."""
    for name, number in point.items():
        if isinstance(number, Mapping) and number.get("value") is not None:
            yield name, number


def extrap(points: SummaryDocument) -> str:
    """Return Extra-P's text format: one parameter, the ranks; a region for each series and swept value."""
    sizes = sorted({point["ranks"] for point in points})
    lines = ["PARAMETER ranks", f"POINTS {' '.join(map(str, sizes))}"]
    values: dict[tuple[str, str], dict[int, float]] = {}
    for point in points:
        swept = [] if point["axis"] in ("", *SCALING) else [point["axis"], str(point["axis_value"])]
        region = "_".join([point["model"], *point["series"].split(), *swept])
        for name, number in _numbers(point):
            values.setdefault((region, name), {}).setdefault(point["ranks"], number["value"])
    for (region, name), by_size in values.items():
        if len(by_size) == len(sizes):  # Extra-P needs each number at each point
            lines += [f"REGION {region}", f"METRIC {name}", *(f"DATA {by_size[size]!r}" for size in sizes)]
    return "\n".join([*lines, ""])


def openmetrics(points: SummaryDocument) -> str:
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


def mllog(points: SummaryDocument) -> str:
    """Return lines of MLPerf's log: of each point its identity as metadata, and its numbers. They state no time."""
    lines = []
    for point in points:
        metadata = {"file": "", "lineno": 0} | {key: point[key] for key in _IDENTITY}
        for name, number in _numbers(point):
            event = {"namespace": "", "time_ms": 0, "event_type": "POINT_IN_TIME", "key": name}
            lines.append(f":::MLLOG {json.dumps(event | {'value': number['value'], 'metadata': metadata})}")
    return "\n".join([*lines, ""])


def perflog(points: SummaryDocument) -> str:
    """Return a file of ReFrame's performance log: a header, and a line for each point with every number of any point.

    A point is a test that passed, and its numbers have no reference: 0 and None, as ReFrame writes it.
    """
    names = dict.fromkeys(name for point in points for name, _ in _numbers(point))
    key_by_field = {"name": "experiment", "num_tasks": "ranks", "num_tasks_per_node": "ranks_per_node"}
    key_by_field |= {key: key for key in (*_IDENTITY, "series") if key not in key_by_field.values()}
    parts = ("value", "unit", "ref", "lower_thres", "upper_thres")
    lines = [["result", *key_by_field, *(f"{name}_{part}" for name in names for part in parts)]]
    for point in points:
        fields = [point[key] for key in key_by_field.values()]
        line = ["pass", *(field if isinstance(field, str) else json.dumps(field) for field in fields)]
        values = dict(_numbers(point))
        for name in names:
            unit = point["unit"] if name.endswith("images_per_s") else "J" if "joules" in name else "1"
            line += [str(values[name]["value"] if name in values else None), unit, "0", "None", "None"]
        lines.append([field.replace("|", "/") for field in line])  # ReFrame does not escape it
    return "\n".join([*map("|".join, lines), ""])


FORMATS: Mapping[str, Callable[[SummaryDocument], str]] = {
    "extrap": extrap,
    "openmetrics": openmetrics,
    "mllog": mllog,
    "perflog": perflog,
}
