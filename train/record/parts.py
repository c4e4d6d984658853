"""What each rank leaves in the run's folder, and how the parts make one record."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import msgspec

from train.record import usage
from train.record.record import Environment, Epoch, Failure, NodeQuota, Rank, Resize, RunRecord


@dataclass
class Part:
    """What one rank has to say at its end. Rank 0 speaks for the job where all ranks know the same."""

    rank: Rank
    failure: Failure | None = None
    environment: Environment | None = None
    losses: list[float] = field(default_factory=list)
    epochs: list[Epoch] = field(default_factory=list)
    resizes: list[Resize] = field(default_factory=list)
    weights_differ: bool | None = None
    notes: list[str] = field(default_factory=list)
    attachments: dict[str, str] = field(default_factory=dict)


_decoder = msgspec.json.Decoder(Part)


def log_path(folder: Path, rank: int) -> Path:
    """Where rank `rank` writes what it prints."""
    return folder / f"rank-{rank}.log"


def write(folder: Path, part: Part) -> None:
    """Leave a part in the run's folder, whole or not at all. A loss that is no number is not written."""
    path = folder / f"rank-{part.rank.rank}.part.json"
    temporary = path.with_suffix(".writing")
    temporary.write_text(json.dumps(asdict(part), allow_nan=False))
    temporary.rename(path)


def read(folder: Path) -> list[Part]:
    """The parts in the run's folder, by rank."""
    parts = [_decoder.decode(path.read_bytes()) for path in folder.glob("rank-*.part.json")]
    return sorted(parts, key=lambda part: part.rank.rank)


def last_phase(folder: Path, rank: int) -> str | None:
    """The phase that a rank was in when its log ends."""
    log = log_path(folder, rank)
    found = re.findall(r"^\[rank \d+\] phase (\w+)$", log.read_text(errors="replace"), re.M) if log.exists() else []
    return found[-1] if found else None


def ranks_at_the_end(parts: list[Part], ranks: int) -> int:
    """How many ranks should have left a part, of a job that began with `ranks`."""
    return parts[0].resizes[-1].ranks_after if parts and parts[0].resizes else ranks


def first_failure(parts: list[Part]) -> Failure | None:
    """The failure that the others follow from: ranks that only lost their peers do not count where another one is."""
    failures = [part.failure for part in parts if part.failure]
    own = [failure for failure in failures if "HorovodInternalError" not in failure.reason]
    return next(iter(own or failures), None)


def assemble(
    parts: list[Part],
    *,
    failure: Failure | None,
    identity: dict[str, Any],
    started_at: str,
    job_s: float,
    ended_at: float,
    cores_shared: bool,
    node_quotas: Sequence[NodeQuota] = (),
) -> RunRecord:
    """One record from the parts: with the phase `exit` up to `ended_at` - started_at where a launcher saw the end.

    Args:
        parts: of all ranks, or of those that lived to write one.
        failure: why the run did not complete, as the launcher saw it; None where it saw none.
        identity: the record's experiment, point, repeat, generation, config_hash, config and command.
        started_at: UTC, ISO 8601.
        job_s: wall time of the job in seconds.
        ended_at: seconds after the start at which the job was over; phases are filled up to it with `exit`.
        cores_shared: whether ranks compete for a core.
        node_quotas: what each emulated node was held to.
    """
    for part in parts:
        rest = ended_at - sum(part.rank.phases_s.values())
        part.rank.phases_s["exit"] = part.rank.phases_s.get("exit", 0.0) + max(0.0, rest)
    first = parts[0] if parts else None
    failure = failure or first_failure(parts)
    record = RunRecord(
        **identity,
        status="failed" if failure else "complete",
        failure=failure,
        started_at=started_at,
        job_s=job_s,
        cores_shared=cores_shared,
        ranks=[part.rank for part in parts],
        environment=first.environment if first else None,
        losses=first.losses if first else [],
        epochs=first.epochs if first else [],
        resizes=first.resizes if first else [],
        weights_differ=first.weights_differ if first else None,
        notes=first.notes if first else [],
        node_quotas=list(node_quotas),
        attachments=first.attachments if first else {},
    )
    record.summary = summary(record)
    return record


def summary(record: RunRecord) -> dict[str, float]:
    """A few numbers for people who open the file: analysis computes its own."""
    if record.status != "complete" or not record.ranks:
        return {}
    timed_s = max(rank.phases_s["timed"] for rank in record.ranks)
    if largest := [rank.allreduces[-1] for rank in record.ranks if rank.allreduces]:
        return {
            "timed_s": timed_s,
            "largest_message_bytes": largest[0].message_bytes,
            "largest_message_s": max(sum(of.times_s) / len(of.times_s) for of in largest),
        }
    steps = len(record.ranks[0].step_times_s)
    numbers = {"timed_s": timed_s}
    if not record.resizes:
        numbers["images_per_s"] = record.config["global_batch"] * steps / timed_s
    numbers |= usage.summary(record.ranks)
    if record.epochs and record.epochs[-1].validation_accuracy is not None:
        numbers["validation_accuracy"] = record.epochs[-1].validation_accuracy
    if record.epochs and record.epochs[-1].validation_mean_absolute_error is not None:
        numbers["validation_mean_absolute_error"] = record.epochs[-1].validation_mean_absolute_error
    return numbers
