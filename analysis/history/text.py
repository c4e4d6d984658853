"""A history, or a check against a reference, as text and tables, and as JSON documents."""

import itertools
import math
import textwrap
from collections.abc import Sequence
from typing import Annotated, get_args

from tabulate import tabulate

from analysis import labels
from analysis.documents import Document, NumberField, PValue, about, filled, tally
from analysis.history import (
    UNITS,
    Key,
    Quantity,
    Row,
    Session,
    Unit,
    Values,
    changed,
    launch_mean,
)
from analysis.history.reference import Provenances, Reference
from analysis.stats import unknown
from analysis.stats.verdict import RatioVerdict

WIDTH = 110
# How tables and figures show each quantity: its name, its unit ("": none), and the factor to that unit.
DISPLAY: dict[Quantity, tuple[str, str, float]] = {
    "images_per_s": ("throughput", "images/s", 1.0),
    "speedup": ("speedup", "", 1.0),
    "wall_s": ("wall time", "s", 1.0),
    "job_s": ("job time", "s", 1.0),
    "bus_bandwidth_bytes_per_s": ("bus bandwidth", "GB/s", 1e-9),
    "allreduce_s": ("allreduce", "ms", 1e3),
}
_MOST = 8  # of provenance that the table names; the JSON has all


def session_table(machine: str, machine_sessions: Sequence[Session]) -> str:
    """Return a table of the sessions of one machine, and what changed between them."""
    cells = [
        {
            "session": session.number,
            "measured": session.days,
            "launches": len(session.launches),
            "commit": session.provenance.commit or "not known",
            "GPU driver": session.provenance.driver or "none",
            "kernel": session.provenance.kernel,
            "image": session.provenance.image or "none",
        }
        for session in machine_sessions
    ]
    lines = [textwrap.fill(f"== {machine}", WIDTH), "", tabulate(cells, headers="keys", disable_numparse=True)]
    for before, now in itertools.pairwise(machine_sessions):
        if changes := changed(before, now):
            lines += ["", f"what changed before session {now.number}:"]
            lines += [f"  {name}: {a} -> {b}" for name, a, b in changes[:_MOST]]
            lines += [f"  and {len(changes) - _MOST} more (--format json)"] if len(changes) > _MOST else []
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
    name, unit, _ = DISPLAY[key]
    return f"{name} [{unit}]" if unit else name


def _mean(values: Sequence[float], quantity: Quantity) -> str:
    return f"{DISPLAY[quantity][2] * math.fsum(values) / len(values):.4g} ({len(values)})" if values else ""


def counts(rows: Sequence[Row]) -> str:
    """Return how many values have each verdict."""
    return f"{len(rows)} values: {tally([row.verdict for row in rows], get_args(RatioVerdict))}"


def explanation(within: float) -> str:
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
            "value (95 % interval)": str(launch_mean([DISPLAY[point.quantity][2] * value for value in point.launches])),
            "launches": len(point.launches),
        }
        for point in reference.points
    ]
    return tabulate(cells, headers="keys", disable_numparse=True)


class PointChange(Document):
    """A point before and now."""

    experiment: str
    model: str
    ranks: int
    point: Annotated[str, about("nodes, and what else distinguishes the point")]
    machine: Annotated[str, about("that it was measured on")]
    quantity: Annotated[Quantity, about("speedup: over the smallest point; bandwidth: of the largest message")]
    unit: Unit
    before: Annotated[Sequence[float], about("one value a launch, of earlier comparable sessions or the reference")]
    now: Annotated[Sequence[float], about("one value a launch, of the newest session")]
    ratio: Annotated[NumberField, about("mean now over mean before")]
    p_value: PValue
    verdict: Annotated[RatioVerdict, about("on the point")]
    note: Annotated[str, about("why it was not judged")]


class SessionValues(Document):
    """The values of a point in one session."""

    session: int
    launches: Annotated[Sequence[float], about("one value a launch")]


class PointHistory(PointChange):
    """A point over time."""

    sessions: Annotated[Sequence[SessionValues], about("each in which it was measured")]


class ProvenanceChange(Document):
    """A difference from the session before."""

    what: str
    before: Annotated[str, about("in the session before")]
    now: Annotated[str, about("in this one")]


class MeasuredSession(Document):
    """A session: launches that were measured together."""

    number: Annotated[int, about("from 1")]
    began: Annotated[str, about("start of its first launch, UTC")]
    ended: Annotated[str, about("start of its last launch, UTC")]
    records: Annotated[Sequence[str], about("their paths")]
    commit: Annotated[str, about("of the kit, seven digits; with + if files were changed; empty: not known")]
    driver: Annotated[str, about("of the GPUs; empty: none")]
    kernel: Annotated[str, about("of the hosts")]
    image_digest: Annotated[str, about("twelve digits; empty: no image")]
    changed: Annotated[Sequence[ProvenanceChange], about("how its provenance differs from that of the session before")]


class MachineHistory(Document):
    """The sessions and points of one machine."""

    machine: Annotated[str, about("its processor, or GPU, and cores")]
    sessions: Annotated[Sequence[MeasuredSession], about("ascending by time")]
    points: Annotated[Sequence[PointHistory], about("each with a verdict on its newest session")]


class History(Document):
    """The points of an experiment over time."""

    within: Annotated[float, about("a smaller relative difference counts as the same")]
    machines: Annotated[Sequence[MachineHistory], about("one entry a machine")]


class ReferenceCheck(Document):
    """A reference beside what was measured since it was written."""

    reference: str
    first_day: Annotated[str, about("of its launches")]
    last_day: Annotated[str, about("of its launches")]
    within: Annotated[float, about("a smaller relative difference counts as the same")]
    made: Annotated[Provenances, about("the provenance of the launches of the reference")]
    points: Annotated[Sequence[PointChange], about("each point of the reference")]


def change_json(row: Row) -> PointChange:
    """Return a point before and now."""
    return filled(
        PointChange,
        row.change.key,
        unit=UNITS[row.change.key.quantity],
        before=row.change.before,
        now=row.change.now,
        ratio=row.ratio or unknown(),
        p_value=row.judged.p if row.judged else None,
        verdict=row.verdict,
        note=row.note,
    )


def point_history(row: Row, values: Values) -> PointHistory:
    """Return a point over time."""
    by_session = [SessionValues(session=nth, launches=launches) for nth, launches in values.by_session.items()]
    return filled(PointHistory, change_json(row), sessions=by_session)


def session_json(machine_sessions: Sequence[Session], nth: int) -> MeasuredSession:
    """Return one of the sessions of a machine, and how it differs from the one before."""
    session = machine_sessions[nth]
    changes = changed(machine_sessions[nth - 1], session) if nth else []
    return filled(
        MeasuredSession,
        session.provenance,
        number=session.number,
        began=session.launches[0].started_at,
        ended=session.launches[-1].started_at,
        records=[launch.path for launch in session.launches],
        image_digest=session.provenance.image,
        changed=[ProvenanceChange(what=name, before=before, now=now) for name, before, now in changes],
    )
