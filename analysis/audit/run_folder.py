"""Rules on what else says what a record says: the files beside it in its run folder, and the commit that it names."""

from __future__ import annotations

import functools
import hashlib
import io
import re
import subprocess
import tarfile
from collections.abc import Iterator, Mapping
from dataclasses import fields
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec

from analysis.audit.findings import RECORD_RULES, Finding, finding, rule
from train.record import parts, protocol, record, source
from train.record.assembly import Identity, JobEnd, assemble
from train.record.record import RunRecord

_CHANGED = "The record was made from these files: it, or they, were changed afterwards."
_NOT_WRITTEN = ("summary", "attachments", "started_at", "sha256")  # by the ranks
_WHOLE_COMMIT = re.compile(r"[0-9a-f]{40}")
_DAMAGED = (OSError, ValueError, TypeError, LookupError, AttributeError)  # what reading a file by anybody raises


def parts_beside(run: RunRecord, path: str) -> bool:
    """Return whether the file that each rank wrote is beside a record, and nothing but these files is in it.

    Jobs whose ranks came and went, or that failed, have files of others too; by hand a rank wrote the record.
    """
    files = protocol.part_paths(Path(path).parent)
    whole = run.status == "complete" and not run.resizes and all("exit" in rank.phases_s for rank in run.ranks)
    return whole and len(files) == len(run.processes) and all(file.is_file() for file in files)


@rule(RECORD_RULES)
def record_and_parts(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a record that says something else than the files beside it, which its ranks wrote while they ran.

    The launcher puts the record together from these files. Doing it again gives the same, to the last digit.
    """
    if parts_beside(run, path):
        identity = Identity(**{one.name: getattr(run, one.name) for one in fields(Identity)})
        started_at = datetime.fromisoformat(run.started_at).timestamp()
        ending = JobEnd(started_at, run.job_s, run.cores_shared, node_quotas=run.node_quotas)
        try:
            again = record.loads(record.dumps(assemble(parts.read(Path(path).parent), identity, ending)), path)
        except (*_DAMAGED, record.RecordError) as error:
            yield finding(path, "warning", "its ranks' files", f"not to be read: {error}", None, _CHANGED)
            return
        stated, written = ({**msgspec.to_builtins(one), **dict.fromkeys(_NOT_WRITTEN)} for one in (run, again))
        yield from _differing(path, "as its rank wrote beside it", stated, written)


@rule(RECORD_RULES)
def record_and_assignment(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a record that says something else than `run.json` beside it, which its launcher gave to the ranks."""
    try:
        asked = protocol.read_assignment(Path(path).parent)
        end_s, digest = asked.config["measure"].get("budget_s"), source.digest(asked.source)
    except _DAMAGED:
        return
    config = _within(asked.config, run.config) | {"measure": run.config["measure"]}
    written = {"config": config, "config_hash": asked.config_hash, "repeat": asked.repeat, "source_digest": digest}
    written |= {"rounds_end_s": end_s} if run.rounds_end_s is not None else {}
    yield from _differing(path, "in run.json beside it", {name: getattr(run, name) for name in written}, written)


def _within(values: Any, like: Any) -> Any:
    """Return values with those keys alone that another configuration has."""
    if isinstance(values, Mapping) and isinstance(like, Mapping):
        return {key: _within(values[key], like[key]) for key in like if key in values}
    return values


def _differing(path: str, by: str, stated: Any, written: Any) -> Iterator[Finding]:
    """Yield one finding on the values that differ, if any do."""
    differ = [*_differences(stated, written)]
    if differ:
        name, one, other = differ[0]
        more = f", and {len(differ) - 1} more values" if len(differ) > 1 else ""
        yield finding(path, "serious", f"{name}: {_short(one)}{more}", f"{_short(other)}, {by}", None, _CHANGED)


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else str(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _differences(one: Any, other: Any, name: str = "") -> Iterator[tuple[str, Any, Any]]:
    """Yield the name and both values of what differs."""
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


@rule(RECORD_RULES)
def commit_and_digest(run: RunRecord, path: str) -> Iterator[Finding]:
    """Report a digest of the code that is not that of the commit which the record names, if this repository has it."""
    environment = run.environment
    if not (environment and environment.git_commit and run.source_digest) or environment.git_dirty is not False:
        return
    digest = _digest_at(environment.git_commit)
    if digest and digest != run.source_digest:
        stated = f"commit {environment.git_commit[:12]}, digest of the code {run.source_digest[:12]}"
        meaning = "Its tree had no changes: another commit ran, or one of both was changed afterwards."
        yield finding(path, "serious", stated, f"{digest[:12]} at that commit", None, meaning)


@functools.cache
def _digest_at(commit: str) -> str | None:
    """Return the digest of train/ and conf/ at a commit of this repository; None where it has none of that name."""
    if not _WHOLE_COMMIT.fullmatch(commit):
        return None
    command = ["git", "-C", str(source.ROOT), "archive", "--format=tar", commit, *source.FOLDERS]
    try:
        packed = subprocess.run(command, capture_output=True, timeout=60, check=True).stdout
    except (OSError, subprocess.SubprocessError):
        return None
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        contents = {
            member.name: hashlib.sha256(file.read()).hexdigest()[: source.DIGITS]
            for member in archive
            if Path(member.name).suffix in source.SUFFIXES and (file := archive.extractfile(member))
        }
    return source.digest(contents)
