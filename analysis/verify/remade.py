"""Whether a record is what its ranks wrote and its launcher asked for: it is made again of the files beside it."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import datetime
from typing import Any

import msgspec

from analysis.finding import Finding, local_finding
from analysis.verify.contents import with_digest
from analysis.verify.point import ASSIGNMENT, DAMAGED, PointFolder
from record import migrations, parts, protocol, recorded_config, this_kit, ticks
from record.schema import RECORD_NAME, SCHEMA_VERSION, PlanPosition, RecordError, RunRecord

CHANGED = "record_changed"
SCRUBBED = "scrubbed: names of hosts and users, paths, addresses and free text are replaced"  # a note in the record
_ROUNDED_S = 1.01  # the start of a record is in whole seconds
_MEANING = "The record is made of the files beside it: it, or they, were changed afterwards, or are of another launch."


class NotComparedError(Exception):
    """A record cannot be made again of its files: says why."""


def changed(place: str, stated: str, follows: str, meaning: str = _MEANING) -> Finding:
    """Return the finding that a record at `place` is not as its launch wrote it."""
    return local_finding(CHANGED, place, "serious", stated, follows, meaning)


def check(point: PointFolder, run_name: str, run: RunRecord) -> list[Finding]:
    """Return what in a record does not agree with the files beside it. Raises NotComparedError."""
    place = f"{point.folder}/{run_name}/{RECORD_NAME}"
    contents = {name: with_digest(name, text, run.sources[name]) for name, text in _files(point, run_name, run)}
    if wrong := [name for name, content in contents.items() if content is None]:
        return [changed(place, f"{wrong[0]}: SHA-256 {run.sources[wrong[0]][:12]}", "the file has another")]
    try:
        remade = _remade(run, {name: content for name, content in contents.items() if content is not None})
    except DAMAGED as error:
        if older := _older(run):
            raise NotComparedError(older) from error
        return [changed(place, "a record", f"none can be made of its files: {error}")]
    differ = [*_differences(run, remade)]
    if differ and (older := _older(run)):
        raise NotComparedError(older)
    more = f", and {len(differ) - 1} more values" if len(differ) > 1 else ""
    return [
        changed(place, f"{name}: {_short(value)}{more}", f"{_short(other)}, of the files beside it")
        for name, value, other in differ[:1]
    ]


def _files(point: PointFolder, run_name: str, run: RunRecord) -> list[tuple[str, bytes]]:
    """Return the files that a record was made of. Raises NotComparedError."""
    if SCRUBBED in run.notes:
        raise NotComparedError("scrubbed: the files of their launches hold names, and are left out")
    if not run.sources:
        raise NotComparedError("they name no files of their launches (an older version, or started by hand)")
    if any(f"{run_name}/{name}" not in point.names for name in (ASSIGNMENT, *run.sources)):
        raise NotComparedError("files of their launches are missing")
    try:
        return [(name, point.read(f"{run_name}/{name}")) for name in run.sources]
    except RecordError as error:
        raise NotComparedError(f"files of their launches cannot be read ({error})") from error


def _older(run: RunRecord) -> str:
    """Return why only another kit makes a record again; "" if this one does."""
    if run.schema_version != SCHEMA_VERSION:
        return f"only the kit that wrote version {run.schema_version} of the schema makes them again"
    same = run.kit_version == this_kit.version()
    return "" if same else f"only version {run.kit_version or 'unknown'} of the kit, which wrote them, makes them again"


# How the job ended, which no file beside the record says.
_END = ("job_s", "cores_shared", "failure", "node_quotas", "attachments", "sources", "ledger_line", "ended_at")


def _remade(run: RunRecord, contents: Mapping[str, bytes]) -> RunRecord:
    """Return the record of these files; the record itself says only how its job ended."""
    assignment = protocol.decoded_assignment(contents[ASSIGNMENT])
    ranks = [parts.decoded_part(content) for name, content in contents.items() if name != ASSIGNMENT]
    values = {"config": recorded_config.recorded(assignment.config)}
    config = migrations.migrate(values, run.schema_version)["config"]
    end = parts.JobEnd(started_at=_started_at(run, ranks), **{name: getattr(run, name) for name in _END})
    if not (run.failure or all(part.finished for part in ranks)):
        raise ValueError("a rank did not finish")
    identity = parts.identity(assignment, config)
    identity["order"] = msgspec.convert(identity.get("order"), PlanPosition | None)
    remade = parts.assemble(ranks, identity, end)
    for rank in remade.ranks:
        for holder in (rank, *rank.windows, *rank.exchanges):
            for name, per_s in ticks.PER_S.items():
                if times_s := getattr(holder, name, None):
                    setattr(holder, name, ticks.rounded(times_s, per_s))
    return replace(remade, sha256=run.sha256, schema_version=run.schema_version, kit_version=run.kit_version)


def _started_at(run: RunRecord, ranks: Iterable[parts.RankPart]) -> float:
    """Return when the job began, in s since the epoch: as its record says, unless a rank of a complete one differs.

    A rank counts the phase `start` from the launcher's time, so that the clocks of hosts do not matter.
    """
    stated = datetime.fromisoformat(run.started_at).timestamp()
    counted = (part.began_at - part.phases_s["start"] for part in ranks if part.phases_s.get("start") and part.began_at)
    began_at = next(counted, stated)
    return stated if run.failure or abs(began_at - stated) <= _ROUNDED_S else began_at


def _differences(one: Any, other: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    if one == other:
        return
    if is_dataclass(one) and is_dataclass(other):
        for item in fields(one):
            path = f"{name}.{item.name}".lstrip(".")
            yield from _differences(getattr(one, item.name), getattr(other, item.name), path)
    elif isinstance(one, dict) and isinstance(other, dict):
        for key in dict.fromkeys([*one, *other]):
            yield from _differences(one.get(key), other.get(key), f"{name}.{key}".lstrip("."))
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        for index, (mine, theirs) in enumerate(zip(one, other, strict=True)):
            yield from _differences(mine, theirs, f"{name}[{index}]")
    else:
        yield name, one, other


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."
