"""The same points over time: did this machine get slower? Each point in the newest session, beside those before it.

A session has launches of an experiment that were measured together. It begins if a launch repeats one that the session
has already (as `FORCE=1` does), or if commit, driver, kernel, image or versions changed.
"""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated

import pandas as pd

from analysis.compare import Comparison, corrected
from analysis.compare.launch_values import Change, Key, Values, compare_launches, days_mean, launch_values, within
from analysis.compare.provenance import Details, Difference, Provenances, details, differences, provenance
from analysis.documents import Document, NumberField, about, filled
from analysis.stats import Number
from analysis.table import controls
from record.schema import RunRecord


@dataclass(frozen=True)
class LaunchInfo:
    """One record: where, when and with what."""

    path: str
    sha256: str
    started_at: str
    key: tuple[str, str, int]  # point, hash of the configuration, repeat
    provenance: Provenances
    details: Details


@dataclass(frozen=True)
class Session:
    """Launches that were measured together, and their rows of the local table."""

    number: int  # from 1, of this machine
    launches: tuple[LaunchInfo, ...]  # ascending by time
    table: pd.DataFrame

    @property
    def provenance(self) -> Provenances:
        """Return the provenance that all its launches share."""
        return self.launches[0].provenance

    @property
    def days(self) -> str:
        """Return the day, or the first and the last."""
        return days(self.launches[0].started_at, self.launches[-1].started_at)


def days(began: str, ended: str) -> str:
    """Return the day of two times, or both days."""
    return began[:10] if began[:10] == ended[:10] else f"{began[:10]} to {ended[:10]}"


def _split(launches: Iterable[LaunchInfo]) -> list[list[LaunchInfo]]:
    """Return the launches of one machine, split into sessions."""
    groups: list[list[LaunchInfo]] = []
    keys: set[tuple[str, str, int]] = set()
    for launch in sorted(launches, key=lambda launch: (launch.started_at, launch.path)):
        if not groups or launch.key in keys or launch.provenance != groups[-1][0].provenance:
            groups.append([])
            keys = set()
        groups[-1].append(launch)
        keys.add(launch.key)
    return groups


def sessions(table: pd.DataFrame, records: Mapping[str, RunRecord]) -> dict[str, list[Session]]:
    """Return the sessions of an experiment by machine, ascending by time.

    table: its local rows. records: by path.
    """
    by_machine: dict[str, list[Session]] = {}
    for machine, rows in table.groupby("machine", sort=False):
        launches = [_launch(path, records[path]) for path in rows["record"].unique()]
        by_machine[str(machine)] = [
            Session(number, tuple(own), controls.attach(rows[rows["record"].isin([launch.path for launch in own])]))
            for number, own in enumerate(_split(launches), 1)
        ]
    return dict(sorted(by_machine.items(), key=lambda item: item[1][0].launches[0].started_at))


def _launch(path: str, run: RunRecord) -> LaunchInfo:
    key = (run.point, run.config_hash, run.repeat)
    return LaunchInfo(path, run.sha256, run.started_at, key, provenance(run), details(run))


def session_values(sessions: Iterable[Session]) -> dict[Key, Values]:
    """Return the values of each point in the sessions of one machine."""
    return launch_values({session.number: session.table for session in sessions})


# Differences that two sessions always have, or that follow from others.
_ALWAYS = ("day", "environment.git_commit", "environment.hosts.host",
           "environment.hosts.state.load", "environment.hosts.state.frequency_mhz",
           "environment.hosts.state.steal_fraction", "environment.hosts.state.gpus.clock_mhz")  # fmt: skip


def changed(before: Session, now: Session) -> list[Difference]:
    """Return the differences of two sessions, without those that all have."""
    changes = differences([a.details for a in before.launches], [a.details for a in now.launches])
    return [change for change in changes if not change.what.startswith(_ALWAYS)]


def since(sessions: Sequence[Session], day: str) -> list[Session]:
    """Return the sessions that began on a day or later, as 2026-11-01."""
    return [session for session in sessions if session.launches[0].started_at[:10] >= day]


def session_states(sessions: Sequence[Session]) -> list[list[int]]:
    """Return session numbers in groups of neighbours with the same provenance.

    The newest session is compared with the last group: an older state of the machine, as before an update, does not
    show what changed since.
    """
    return [[s.number for s in alike] for _, alike in itertools.groupby(sessions, key=lambda s: s.provenance)]


def newest_changes(values: Mapping[Key, Values], sessions: Sequence[Session]) -> list[Change]:
    """Return each point in the newest session, compared with those before it with one provenance."""
    last, (*older, base) = sessions[-1].number, session_states(sessions[:-1]) or [[]]
    several = f"sessions {base[0]} to {base[-1]}, all with the same commit and versions" if base else "nothing"
    source = f"session {base[0]}" if len(base) == 1 else several
    on = f"session {last}, {sessions[-1].table['machine'].iloc[0]}"
    changes = []
    for key, point in values.items():
        before, now = point.side(base), point.side([last])
        missing = "" if before.launches else "not measured before it"
        missing = missing if now.launches else "not measured in the newest session"
        scattered = tuple(point.side(state).launches for state in older)
        why_not = missing or point.why_invalid([*base, last])
        changes.append(Change(key, before, now, scattered, why_not, source, on))
    return changes


class SessionValues(Document):
    """The values of a point in one session."""

    session: int
    launches: Annotated[Sequence[float], about("one value a launch")]
    value: Annotated[NumberField, about("typical value of the launches")]


class PointHistory(Comparison):
    """A point over time, and its newest session beside those before it."""

    ranks: int
    sessions: Annotated[Sequence[SessionValues], about("each in which it was measured")]
    over_days: Annotated[NumberField, about("mean over days since the last update; interval: from three days on")]


class MeasuredSession(Document):
    """A session: launches that were measured together."""

    number: Annotated[int, about("from 1")]
    began: Annotated[str, about("start of its first launch, UTC")]
    ended: Annotated[str, about("start of its last launch, UTC")]
    records: Annotated[Sequence[str], about("their paths")]
    provenance: Annotated[Provenances, about("that its launches share")]
    changed: Annotated[Sequence[Difference], about("how it differs from the session before, which is the reference")]


class MachineHistory(Document):
    """The sessions and points of one machine."""

    machine: Annotated[str, about("its processor, or GPU, and cores")]
    sessions: Annotated[Sequence[MeasuredSession], about("ascending by time")]
    points: Annotated[Sequence[PointHistory], about("each with a verdict on its newest session")]


class History(Document):
    """The points of an experiment over time."""

    within: Annotated[float, about("a smaller relative difference counts as the same")]
    machines: Annotated[Sequence[MachineHistory], about("one entry a machine")]


def compare_sessions(sessions: Mapping[str, list[Session]], fraction: float) -> History:
    """Compare the newest session of each machine with those before it.

    fraction: up to which a value counts as the same. Machines without a value are left out.
    """
    by_machine = {name: values for name, own in sessions.items() if (values := session_values(own))}
    changes = {name: newest_changes(values, sessions[name]) for name, values in by_machine.items()}
    judged = compare_launches([change for own in changes.values() for change in own], within(fraction))
    rows = iter(corrected(judged))
    machines = [
        MachineHistory(
            machine=name,
            sessions=_measured_sessions(sessions[name]),
            points=[_point(key, point, next(rows), sessions[name]) for key, point in values.items()],
        )
        for name, values in by_machine.items()
    ]
    return History(within=fraction, machines=machines)


def _point(key: Key, values: Values, row: Comparison, sessions: Sequence[Session]) -> PointHistory:
    by_session = [
        SessionValues(session=number, launches=launches, value=values.side([number]).number)
        for number, launches in values.by_session.items()
    ]
    return filled(PointHistory, row, ranks=key.ranks, sessions=by_session, over_days=_over_days(values, sessions))


def _over_days(values: Values, sessions: Sequence[Session]) -> Number:
    """Return a point over the days of the machine's newest state, without sessions that are not valid.

    A session belongs to the day on which it began; an update begins a new state.
    """
    state = session_states(sessions)[-1]
    by_day: dict[str, list[float]] = {}
    for session in sessions:
        if session.number in state and session.number not in values.invalid:
            by_day.setdefault(session.launches[0].started_at[:10], []).extend(values.side([session.number]).launches)
    return days_mean([day for day in by_day.values() if day])


def _measured_sessions(sessions: Sequence[Session]) -> list[MeasuredSession]:
    changes = [[], *itertools.starmap(changed, itertools.pairwise(sessions))]
    return [
        MeasuredSession(
            number=session.number,
            began=session.launches[0].started_at,
            ended=session.launches[-1].started_at,
            records=[launch.path for launch in session.launches],
            provenance=session.provenance,
            changed=differing,
        )
        for session, differing in zip(sessions, changes, strict=True)
    ]
