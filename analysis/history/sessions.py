"""Sessions: the launches of an experiment that were measured together, one after the other over time.

A session begins if a launch repeats one that the session has already (as `FORCE=1` does), or if commit, driver, kernel,
image or versions changed.
"""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pandas as pd

from analysis.compare import sets
from analysis.table import controls
from train.record.record import RunRecord


@dataclass(frozen=True)
class Provenance:
    """The commit and software of a launch; "" for what the record does not say."""

    commit: str  # seven digits, with + where files were changed
    driver: str  # of the GPUs
    kernel: str
    image: str  # digest
    versions: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Launch:
    """One record: where, when and with what."""

    path: str
    sha256: str
    started_at: str
    key: tuple[str, str, int]  # point, hash of the configuration, repeat
    machine: str
    provenance: Provenance
    details: dict[str, str]  # all provenance that `compare` shows if two sets differ


@dataclass(frozen=True)
class Session:
    """Launches that were measured together, and their rows of the local table."""

    number: int  # from 1, of this machine
    launches: tuple[Launch, ...]  # ascending by time
    table: pd.DataFrame

    @property
    def provenance(self) -> Provenance:
        """Return the provenance that all its launches share."""
        return self.launches[0].provenance

    @property
    def days(self) -> str:
        """Return the day, or the first and the last."""
        first, last = self.launches[0].started_at[:10], self.launches[-1].started_at[:10]
        return first if first == last else f"{first} to {last}"


def provenance(run: RunRecord) -> Provenance:
    """Return the commit and software of a run."""
    env = run.environment
    if env is None:
        return Provenance("", "", "", "", ())
    states = [host.state for host in env.hosts if host.state]
    drivers = sorted({gpu.driver for state in states for gpu in state.gpus})
    kernels = sorted({host.kernel for host in env.hosts})
    commit = (env.git_commit or "")[:7] + ("+" if env.git_dirty else "")
    image = (env.image_digest or "").removeprefix("sha256:")[:12]
    return Provenance(commit, ", ".join(drivers), ", ".join(kernels), image, tuple(sorted(env.versions.items())))


def launches(table: pd.DataFrame, records: Mapping[str, RunRecord]) -> list[Launch]:
    """Return the launches that a local table has rows of, ascending by time; records: by path."""
    machine = table.drop_duplicates("record").set_index("record")["machine"]
    launches = []
    for path, name in machine.items():
        run = records[str(path)]
        key = (run.point, run.config_hash, run.repeat)
        launches.append(
            Launch(str(path), run.sha256, run.started_at, key, str(name), provenance(run), sets.provenance(run))
        )
    return sorted(launches, key=lambda one: (one.started_at, one.path))


def _split(ordered: Iterable[Launch]) -> list[list[Launch]]:
    """Return the launches of one machine, ascending by time, split into sessions."""
    groups: list[list[Launch]] = []
    keys: set[tuple[str, str, int]] = set()
    for one in ordered:
        if not groups or one.key in keys or one.provenance != groups[-1][0].provenance:
            groups.append([])
            keys = set()
        groups[-1].append(one)
        keys.add(one.key)
    return groups


def sessions(table: pd.DataFrame, records: Mapping[str, RunRecord]) -> dict[str, list[Session]]:
    """Return the sessions of an experiment by machine, ascending by time.

    table: its local rows. records: by path.
    """
    by_machine: dict[str, list[Launch]] = defaultdict(list)
    for one in launches(table, records):
        by_machine[one.machine].append(one)
    return {
        machine: [
            Session(
                number, tuple(launches), controls.attach(table[table["record"].isin([one.path for one in launches])])
            )
            for number, launches in enumerate(_split(ordered), 1)
        ]
        for machine, ordered in by_machine.items()
    }


# Differences that two sessions always have, or that follow from others.
_ALWAYS = ("day", "environment.git_commit", "environment.variables.SLURM_", "environment.hosts.host",
           "environment.hosts.state.load", "environment.hosts.state.frequency_mhz",
           "environment.hosts.state.steal_fraction", "environment.hosts.state.gpus.clock_mhz")  # fmt: skip


def changed(before: Session, now: Session) -> list[tuple[str, str, str]]:
    """Return the differences of two sessions, without those that all have: name, before, now."""
    changes = sets.changes([one.details for one in before.launches], [one.details for one in now.launches])
    return [one for one in changes if not one[0].startswith(_ALWAYS)]


def since(sessions: Sequence[Session], day: str) -> list[Session]:
    """Return the sessions that began on a day or later, as 2026-11-01."""
    return [one for one in sessions if one.launches[0].started_at[:10] >= day]
