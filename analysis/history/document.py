"""The history of points, and their comparison with a reference, as JSON documents."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

from analysis.documents import Document, Number, PValue, about, filled, number
from analysis.history import sessions
from analysis.history.points import UNITS, Quantity, Unit, Values
from analysis.history.reference import Provenances
from analysis.history.sessions import Session
from analysis.history.verdicts import Row, VerdictName
from analysis.stats.number import unknown


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
    ratio: Annotated[Number, about("mean now over mean before")]
    p_value: PValue
    verdict: Annotated[VerdictName, about("on the point")]
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


def change(row: Row) -> PointChange:
    """Return a point before and now."""
    return filled(
        PointChange,
        row.change.key,
        unit=UNITS[row.change.key.quantity],
        before=row.change.before,
        now=row.change.now,
        ratio=number(row.ratio or unknown()),
        p_value=row.judged.p if row.judged else None,
        verdict=row.verdict,
        note=row.note,
    )


def point_history(row: Row, values: Values) -> PointHistory:
    """Return a point over time."""
    by_session = [SessionValues(session=nth, launches=launches) for nth, launches in values.by_session.items()]
    return filled(PointHistory, change(row), sessions=by_session)


def session(machine_sessions: Sequence[Session], nth: int) -> MeasuredSession:
    """Return one of the sessions of a machine, and how it differs from the one before."""
    one = machine_sessions[nth]
    changes = sessions.changed(machine_sessions[nth - 1], one) if nth else []
    return filled(
        MeasuredSession,
        one.provenance,
        number=one.number,
        began=one.launches[0].started_at,
        ended=one.launches[-1].started_at,
        records=[launch.path for launch in one.launches],
        image_digest=one.provenance.image,
        changed=[ProvenanceChange(what=name, before=before, now=now) for name, before, now in changes],
    )
