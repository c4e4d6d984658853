"""One record from the parts that ranks left: complete, or failed with all that was measured until then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from train.record import summary, usage
from train.record.parts import Part, first_failure
from train.record.record import SCHEMA_VERSION, Failure, NodeQuota, Order, Rank, Role, RunRecord, Server, Usage

# What rank 0's part says of the whole job.
_OF_THE_JOB = (
    "environment", "losses", "epochs", "resizes", "weights_differ", "work", "notes", "arms_left_out", "attachments",
)  # fmt: skip


@dataclass(frozen=True)
class Identity:
    """What was asked for: fields of the record that are known before the launch."""

    experiment: str
    point: str
    repeat: int
    generation: int
    config: dict[str, Any]
    config_hash: str
    source_digest: str
    command: list[str]
    learning_rate: float | None
    swept: dict[str, Any]
    arm: str | None = None
    role: Role | None = "point"
    arm_keys: Sequence[str] = ()
    order: Order | None = None


@dataclass(frozen=True)
class Ending:
    """How the job ran and ended, as seen by who puts the record together. Times in seconds."""

    started_at: float  # since the epoch
    job_s: float
    cores_shared: bool  # ranks competed for a core
    seen_to_end: bool = True  # by a launcher: phases are filled up to job_s; by hand they end with the rank's last line
    failure: Failure | None = None
    node_quotas: Sequence[NodeQuota] = ()
    attachments: Mapping[str, str] = field(default_factory=dict)  # beside those that rank 0 knows of


def ranks_at_the_end(parts: Sequence[Part], ranks: int) -> int:
    """How many ranks the job had when it ended, of one that began with `ranks`: elastic training changes them."""
    resizes = max((part.resizes for part in parts), key=len, default=[])
    return resizes[-1].ranks_after if resizes else ranks


def assemble(parts: Sequence[Part], identity: Identity, ending: Ending) -> RunRecord:
    """The record of a run. It is complete where neither the launcher nor a rank knows of a failure."""
    if any(part.resizes for part in parts):  # a rank that was lost has no place among those at the end
        parts = [part for part in parts if part.rank < ranks_at_the_end(parts, len(parts))]
    failure = ending.failure or first_failure(list(parts))
    first = parts[0] if parts else Part()
    trained = [part for part in parts if part.workers]
    record = RunRecord(
        **vars(identity) | {"arm_keys": list(identity.arm_keys)},
        status="failed" if failure else "complete",
        failure=failure,
        started_at=datetime.fromtimestamp(ending.started_at, UTC).isoformat(timespec="seconds"),
        job_s=ending.job_s,
        cores_shared=ending.cores_shared,
        ranks=[
            _rank(part, used, ending)
            for part, used in zip(trained, usage.thinned([part.usage for part in trained]), strict=True)
        ],
        servers=[_server(part) for part in parts if not part.workers],
        node_quotas=list(ending.node_quotas),
        schema_version=SCHEMA_VERSION,
        **{name: getattr(first, name) for name in _OF_THE_JOB},
    )
    record.attachments |= ending.attachments
    record.summary = summary.of(record)
    return record


def _server(part: Part) -> Server:
    return Server(**{item.name: getattr(part, item.name) for item in fields(Server)})


def _rank(part: Part, used: Usage | None, ending: Ending) -> Rank:
    """The rank of a part, with the samples of its usage that are kept.

    The time that it did not book is `exit`; of one that did not finish, the phase it was in.
    """
    phases_s = dict(part.phases_s)
    if ending.seen_to_end:
        phase = "exit" if part.finished or part.failure else part.phase
        phases_s[phase] = phases_s.get(phase, 0.0) + max(0.0, ending.job_s - sum(phases_s.values()))
    values = {item.name: getattr(part, item.name) for item in fields(Rank) if item.name not in ("phases_s", "usage")}
    return Rank(**values, phases_s=phases_s, usage=used)
