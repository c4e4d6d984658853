"""A history, or a check against a reference, as text and tables."""

from __future__ import annotations

import itertools
import math
import textwrap
from collections import Counter
from collections.abc import Sequence

from tabulate import tabulate

from analysis import labels
from analysis.history import sessions, verdicts
from analysis.history.points import Key, Quantity
from analysis.history.reference import Reference
from analysis.history.sessions import Session
from analysis.history.verdicts import VERDICTS, Row

WIDTH = 110
# How tables and figures show each quantity: its name, its unit ("": it has none), and how many of these a value has.
SHOWN: dict[Quantity, tuple[str, str, float]] = {
    "images_per_s": ("throughput", "images/s", 1.0),
    "speedup": ("speedup", "", 1.0),
    "wall_s": ("wall time", "s", 1.0),
    "job_s": ("job time", "s", 1.0),
    "bus_bandwidth_bytes_per_s": ("bus bandwidth", "GB/s", 1e-9),
    "allreduce_s": ("allreduce", "ms", 1e3),
}
_SHOWN = 8  # changes of what made the launches that are named; the JSON has all


def session_table(machine: str, machine_sessions: Sequence[Session]) -> str:
    """Return a table of the sessions of one machine, and what changed between them."""
    cells = [
        {
            "session": one.number,
            "measured": one.days,
            "launches": len(one.launches),
            "commit": one.provenance.commit or "not known",
            "GPU driver": one.provenance.driver or "none",
            "kernel": one.provenance.kernel,
            "image": one.provenance.image or "none",
        }
        for one in machine_sessions
    ]
    lines = [textwrap.fill(f"== {machine}", WIDTH), "", tabulate(cells, headers="keys", disable_numparse=True)]
    for before, now in itertools.pairwise(machine_sessions):
        if changes := sessions.changed(before, now):
            lines += ["", f"what changed before session {now.number}:"]
            lines += [f"  {name}: {a} -> {b}" for name, a, b in changes[:_SHOWN]]
            lines += [f"  and {len(changes) - _SHOWN} more (--format json)"] if len(changes) > _SHOWN else []
    return "\n".join(lines)


def compared_sessions(base: Sequence[int], newest: int) -> str:
    """Return which sessions are compared: the newest, and those before it with the same provenance."""
    several = f"sessions {base[0]} to {base[-1]}, all with the same commit and versions"
    earlier = f"session {base[0]}" if len(base) == 1 else several
    return f"session {newest} compared with {earlier}:"


def table(rows: Sequence[Row], before: str, now: str) -> str:
    """Return a table of points with verdicts; `before` and `now` name the two sides."""
    cells = [
        {
            "model": subject(row.change.key),
            "point": row.change.key.point,
            "quantity": quantity(row.change.key.quantity),
            f"{before} (launches)": _mean(row.change.before, row.change.key.quantity),
            f"{now} (launches)": _mean(row.change.now, row.change.key.quantity),
            "ratio (95 % interval)": str(row.ratio) if row.ratio else "",
            "p": f"{row.judged.p:.2g}" if row.judged else "",
            "verdict": row.verdict,
            "note": row.note,
        }
        for row in rows
    ]
    widths = [34 if key == "note" else None for key in cells[0]] if cells else None
    return tabulate(cells, headers="keys", disable_numparse=True, maxcolwidths=widths)


def failures(rows: Sequence[Row]) -> dict[str, str]:
    """Return the name of each value, with its ratio and interval if it is slower, else with ""."""
    return {
        f"{key.experiment} {subject(key)}, {key.point}, {quantity(key.quantity)}, {key.machine}": (
            f"slower: now / before {row.ratio}" if row.verdict == "slower" else ""
        )
        for row in rows
        for key in [row.change.key]
    }


def subject(key: Key) -> str:
    """Return the name of the model, or of allreduce alone."""
    return labels.name(key.model) if key.model else "allreduce"


def quantity(key: Quantity) -> str:
    """Return a quantity with its unit, as the head of a column."""
    name, unit, _ = SHOWN[key]
    return f"{name} [{unit}]" if unit else name


def _mean(values: Sequence[float], quantity: Quantity) -> str:
    return f"{SHOWN[quantity][2] * math.fsum(values) / len(values):.4g} ({len(values)})" if values else ""


def counts(rows: Sequence[Row]) -> str:
    """Return how many values have each verdict."""
    counted = Counter(row.verdict for row in rows)
    return f"{len(rows)} values: " + ", ".join(f"{counted[name]} {name}" for name in VERDICTS)


def how(within: float) -> str:
    """Return how to read the verdicts."""
    percent = f"{100 * within:g} %"
    return textwrap.fill(
        f"As before: the 90 % interval of the ratio is within {percent} of 1. Slower, faster: the whole 95 % interval "
        f"is more than {percent} off; of times, slower is above 1. The intervals know how far launches differ, on "
        "older sessions too. p is corrected for the number of values (Holm): all verdicts together are "
        "wrong at most 5 times in 100. docs/history.md",
        WIDTH,
    )


def summary(reference: Reference) -> str:
    """Return a table of the points of a reference with their intervals."""
    cells = [
        {
            "experiment": point.experiment,
            "model": subject(point.key),
            "point": point.point,
            "quantity": quantity(point.quantity),
            "value (95 % interval)": str(
                verdicts.launch_mean([SHOWN[point.quantity][2] * value for value in point.launches])
            ),
            "launches": len(point.launches),
        }
        for point in reference.points
    ]
    return tabulate(cells, headers="keys", disable_numparse=True)
