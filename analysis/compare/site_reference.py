"""References that a site keeps: the values of its points, their provenance, and the tolerance.

Each is a JSON file, `references/NAME.json`, described by `reference.schema.json` in this folder and checksummed like a
record. docs/history.md explains each name.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Annotated

import msgspec

from analysis import TableError
from analysis.compare import Comparison, corrected
from analysis.compare.launch_values import Change, Key, Side, Values, compare_launches, within
from analysis.compare.provenance import Provenances, merged
from analysis.compare.sessions import Session
from analysis.documents import Document, about, filled
from analysis.stats import from_ends, unknown
from common import bounded_files as bounded
from record import migrations, this_kit
from record import schema as record

OLDEST, VERSION = 1, 2  # 2 added `kit`
FOLDER = Path("references")
SCHEMA = Path(__file__).with_name("reference.schema.json")
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NO_CHECKSUM = "0" * 64


@dataclass(frozen=True)
class Point(Key):
    """One point: its typical value with the 95 % interval (null: too few values), and the value of each launch."""

    value: float
    low: float | None
    high: float | None
    launches: list[float]

    @property
    def side(self) -> Side:
        """Return its launches and their typical value."""
        n = len(self.launches)
        if self.low is None or self.high is None:
            return Side(tuple(self.launches), unknown(self.value, n))
        return Side(tuple(self.launches), from_ends(self.value, self.low, self.high, "between launches", n))

    @property
    def key(self) -> Key:
        """Return the key with which other measurements are compared."""
        return Key(**{name: getattr(self, name) for name in Key.__match_args__})


class _Version(msgspec.Struct):
    version: int
    kit: str = ""


@dataclass(frozen=True)
class Reference:
    """The content of a reference file."""

    name: str
    first_day: str
    last_day: str
    within: float  # the tolerance: a value counts as the same up to this fraction of the reference, below and above
    points: list[Point]
    made: Provenances
    records: dict[str, str]  # path of each record when it was written -> its sha256
    version: int = VERSION
    kit: str = ""  # the version of the kit that wrote the file; "" before version 2
    sha256: record.Digest = field(default=_NO_CHECKSUM)  # of this file with this field's digits set to 0

    @property
    def systems(self) -> list[str]:
        """Return the machines that it has points of."""
        return sorted({point.machine for point in self.points})


def path(name: str, folder: Path = FOLDER) -> Path:
    """Return the path of a reference. Raises TableError for a name that is no file name."""
    if not _NAME.fullmatch(name):
        raise TableError(f"NAME={name}: allowed are letters, digits, '.', '_' and '-', as owens-2026-11")
    return folder / f"{name}.json"


def new_reference(name: str, sessions: Sequence[Session], values: Mapping[Key, Values], within: float) -> Reference:
    """Return a reference from all launches of some sessions, without points that are not valid scaling results."""
    launches = [launch for session in sessions for launch in session.launches]
    days = sorted(launch.started_at[:10] for launch in launches)
    points = [_point(key, point.side()) for key, point in values.items() if not point.invalid]
    records = {launch.path: launch.sha256 for launch in launches}
    return Reference(name, days[0], days[-1], within, points, merged(launch.provenance for launch in launches), records)


def with_other_systems(new: Reference, stored: Reference) -> Reference:
    """Return a new reference with the points that a stored one has of other systems, and what these were made with."""
    others = [point for point in stored.points if point.machine not in new.systems]
    if not others:
        return new
    return replace(
        new,
        first_day=min(new.first_day, stored.first_day),
        last_day=max(new.last_day, stored.last_day),
        points=sorted([*others, *new.points]),
        made=merged([stored.made, new.made]),
        records=stored.records | new.records,
    )


def _point(key: Key, side: Side) -> Point:
    low, high = side.number.interval if side.number.has_interval else (None, None)
    return Point(**asdict(key), value=side.number.value, low=low, high=high, launches=[*side.launches])


def dumps(reference: Reference) -> bytes:
    """Return the text of the file, with its checksum."""
    fields = asdict(reference) | {"version": VERSION, "kit": this_kit.version(), "sha256": _NO_CHECKSUM}
    text = json.dumps(fields, indent=1, ensure_ascii=False).encode() + b"\n"
    return text.replace(_NO_CHECKSUM.encode(), record.digest(text, _NO_CHECKSUM).encode())


def load(file: Path) -> Reference:
    """Return the reference in a file. Raises TableError if there is none, or if it was edited."""
    try:
        text = bounded.check_json(bounded.read(file))
        header = msgspec.json.decode(text, type=_Version)
        if reason := migrations.refusal(header.version, OLDEST, VERSION, header.kit):
            raise TableError(f"{file}: {reason}")
        reference = msgspec.json.decode(text, type=Reference)
    except OSError as error:
        names = ", ".join(sorted(path.stem for path in file.parent.glob("*.json"))) or "none yet"
        raise TableError(
            f"{file}: {error.strerror}; references that are kept: {names}; `make reference NAME={file.stem}` writes one"
        ) from error
    except ValueError as error:
        raise TableError(f"{file}: not a reference: {error}") from error
    if record.digest(text, reference.sha256) != reference.sha256:
        raise TableError(
            f"{file}: its content does not match its sha256: edited after it was written; to change the tolerance, "
            f"write it again: make reference NAME={file.stem} WITHIN={reference.within:g} FORCE=1"
        )
    return reference


class ReferenceCheck(Document):
    """A reference beside what was measured since it was written."""

    reference: str
    first_day: Annotated[str, about("of its launches")]
    last_day: Annotated[str, about("of its launches")]
    within: Annotated[float, about("a smaller relative difference counts as the same")]
    made: Annotated[Provenances, about("the provenance of the launches of the reference")]
    comparisons: Annotated[
        Sequence[Comparison], about("each point of the reference, of the systems that were measured")
    ]
    other_systems: Annotated[list[str], about("whose points are not compared, as only others were measured since")]


def check(reference: Reference, values: Mapping[Key, Values], fraction: float) -> ReferenceCheck:
    """Compare new values with a reference; `values`: without the launches of the reference.

    fraction: up to which a value counts as the same.
    """
    measured = {key.machine for key in values} & {*reference.systems} or {*reference.systems}
    changes = []
    for point in (point for point in reference.points if point.machine in measured):
        new = values.get(point.key, Values())
        why = "; ".join(new.invalid.values())
        why = why if new.by_session else "not measured since, in this configuration on this machine"
        source = f"reference {reference.name}"
        changes.append(Change(point.key, point.side, new.side(), (), why, source, point.machine))
    comparisons = corrected(compare_launches(changes, within(fraction)))
    others = [system for system in reference.systems if system not in measured]
    fields = {"reference": reference.name, "within": fraction, "comparisons": comparisons, "other_systems": others}
    return filled(ReferenceCheck, reference, **fields)


def json_schema() -> dict[str, object]:
    """Return the JSON Schema of a reference file, for programs that read it without this kit."""
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": f"Reference of a site, version {VERSION}",
        **msgspec.json.schema(Reference),
    }


if __name__ == "__main__":
    print(json.dumps(json_schema(), indent=1))
