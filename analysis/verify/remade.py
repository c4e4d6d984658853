"""Whether a record is what its ranks wrote and its launcher asked for: it is made again of the files beside it."""

import hashlib
from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import msgspec

from analysis.finding import Finding
from analysis.verify.point import ASSIGNMENT, DAMAGED, Point
from record import parts, protocol
from record import schema as record
from record.parts import JobEnd, assemble
from record.schema import RECORD_NAME, SCHEMA_VERSION, RecordError, RunRecord

CHANGED = "record_changed"
SCRUBBED = "scrubbed: names of hosts and users, paths, addresses and free text are replaced"  # a note in the record
_OF_THE_FILE = ("sha256", "schema_version", "kit_version")
_MEANING = "The record is made of the files beside it: it, or they, were changed afterwards, or are of another launch."


def changed(place: str, stated: str, follows: str, meaning: str = _MEANING) -> Finding:
    """Return the finding that a record at `place` is not as its launch wrote it."""
    return Finding("local", place, CHANGED, "serious", stated, follows, None, meaning)


def check(point: Point, run_name: str, run: RunRecord) -> tuple[str, list[Finding]]:
    """Return why a record cannot be verified, or "", and what does not agree with the files beside it."""
    place = f"{point.folder}/{run_name}/{RECORD_NAME}"
    if SCRUBBED in run.notes:
        return "scrubbed, so not verifiable: the files of its launch hold names, and are left out", []
    if not run.sources:
        return "no digests in them (an older version, or started by hand)", []
    if any(f"{run_name}/{name}" not in point.names for name in run.sources):
        return "files of their launches are missing", []
    try:
        files = {name: point.read(f"{run_name}/{name}") for name in run.sources}
    except RecordError as error:
        return f"files of their launches cannot be read ({error})", []
    contents = {name: _with_digest(content, run.sources[name]) for name, content in files.items()}
    if wrong := [name for name, content in contents.items() if content is None]:
        return "", [changed(place, f"{wrong[0]}: SHA-256 {run.sources[wrong[0]][:12]}", "the file has another")]
    if run.schema_version != SCHEMA_VERSION:
        return f"only the kit that wrote version {run.schema_version} makes them again; all digests agree", []
    try:
        remade = _remade(run, {name: content for name, content in contents.items() if content is not None})
    except DAMAGED as error:
        return "", [changed(place, "a record", f"none can be made of its files: {error}")]
    stated, written = ({**msgspec.to_builtins(one), **dict.fromkeys(_OF_THE_FILE)} for one in (run, remade))
    differ = [*_differences(stated, written)]
    more = f", and {len(differ) - 1} more values" if len(differ) > 1 else ""
    return "", [
        changed(place, f"{name}: {_short(value)}{more}", f"{_short(other)}, of the files beside it")
        for name, value, other in differ[:1]
    ]


def _with_digest(content: bytes, sha256: str) -> bytes | None:
    """Return the content with this digest: the whole, or its first lines if a rank wrote on after the record."""
    digest, length = hashlib.sha256(), 0
    for line in content.splitlines(keepends=True):
        digest.update(line)
        length += len(line)
        if digest.hexdigest() == sha256:
            return content[:length]
    return None


def _remade(run: RunRecord, contents: Mapping[str, bytes]) -> RunRecord:
    """Return the record of these files; the record itself says only how its job ended."""
    assignment = protocol.loads(contents[ASSIGNMENT])
    rank_parts = [parts.loads(content) for name, content in contents.items() if name != ASSIGNMENT]
    config = _within(assignment.config, run.config)
    if run.program:  # the kit's exchange is not its own: train/config/identity.py
        config["distribution"] = run.config["distribution"]
    if "rounds_end_s" in config:  # the record has it beside its configuration
        config["rounds_end_s"] = run.config["rounds_end_s"]
    end = JobEnd(
        started_at=datetime.fromisoformat(run.started_at).timestamp(),
        job_s=run.job_s,
        cores_shared=run.cores_shared,
        failure=run.failure,
        node_quotas=run.node_quotas,
        attachments=run.attachments,
        sources=run.sources,
        ledger_line=run.ledger_line,
    )
    if not (run.failure or all(part.finished for part in rank_parts)):
        raise ValueError("a rank did not finish")
    remade = assemble(sorted(rank_parts, key=lambda part: part.rank), parts.identity(assignment, config), end)
    return record.loads(record.dumps(remade), RECORD_NAME)


def _within(values: Any, like: Any) -> Any:
    """Return values with only those keys that another configuration has."""
    if isinstance(values, Mapping) and isinstance(like, Mapping):
        return {key: _within(values[key], like[key]) for key in like if key in values}
    return values


def _differences(one: Any, other: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    if one == other:
        return
    if isinstance(one, dict) and isinstance(other, dict):
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
