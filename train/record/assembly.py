"""One record from the parts that ranks left: complete, or failed with all that was measured until then."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime
from typing import Any

from train.record import summary, usage
from train.record.parts import Part, first_failure
from train.record.record import SCHEMA_VERSION, Failure, NodeQuota, Order, Rank, Role, RunRecord, Server, Usage

# Fields of the whole job, from rank 0's part.
_OF_THE_JOB = (
    *("environment", "losses", "epochs", "resizes", "weights_differ", "work", "printed"),
    *("notes", "arms_left_out", "attachments"),
)


@dataclass(frozen=True)
class Identity:
    """The fields of the record that are known before the launch."""

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
    rounds_end_s: float | None = None


@dataclass(frozen=True)
class JobEnd:
    """How the job ran and ended, for whoever assembles the record. Times in seconds."""

    started_at: float  # since the epoch
    job_s: float
    cores_shared: bool  # ranks competed for a core
    supervised: bool = True  # by a launcher: phases add up to job_s; by hand they end with the rank's last line
    failure: Failure | None = None
    node_quotas: Sequence[NodeQuota] = ()
    attachments: Mapping[str, str] = field(default_factory=dict)  # beside those of rank 0


def final_ranks(parts: Sequence[Part], ranks: int) -> int:
    """Return how many ranks a job had at its end, if it began with `ranks`: elastic training changes them."""
    resizes = max((part.resizes for part in parts), key=len, default=[])
    return resizes[-1].ranks_after if resizes else ranks


def assemble(parts: Sequence[Part], identity: Identity, job_end: JobEnd) -> RunRecord:
    """Return the record of a run. It is complete if neither the launcher nor a rank reports a failure."""
    if any(part.resizes for part in parts):  # a rank that was lost is not among those at the end
        parts = [part for part in parts if part.rank < final_ranks(parts, len(parts))]
    failure = job_end.failure or first_failure(list(parts))
    first = parts[0] if parts else Part()
    trained = [part for part in parts if part.workers]
    record = RunRecord(
        **vars(identity) | {"arm_keys": list(identity.arm_keys)},
        status="failed" if failure else "complete",
        failure=failure,
        started_at=datetime.fromtimestamp(job_end.started_at, UTC).isoformat(timespec="seconds"),
        job_s=job_end.job_s,
        cores_shared=job_end.cores_shared,
        ranks=[
            _rank(part, used, job_end)
            for part, used in zip(trained, usage.thinned_usage([part.usage for part in trained]), strict=True)
        ],
        servers=[_server(part) for part in parts if not part.workers],
        node_quotas=list(job_end.node_quotas),
        schema_version=SCHEMA_VERSION,
        **{name: getattr(first, name) for name in _OF_THE_JOB},
    )
    record.attachments |= job_end.attachments
    record.summary = summary.record_summary(record)
    return record


def _server(part: Part) -> Server:
    return Server(**{item.name: getattr(part, item.name) for item in fields(Server)})


def _rank(part: Part, used: Usage | None, job_end: JobEnd) -> Rank:
    """Return the rank of a part, with the samples of its usage that remain.

    The time that it did not book is `exit`, or of one that did not finish the phase it was in.
    """
    phases_s = dict(part.phases_s)
    if job_end.supervised:
        phase = "exit" if part.finished or part.failure else part.phase
        phases_s[phase] = phases_s.get(phase, 0.0) + max(0.0, job_end.job_s - sum(phases_s.values()))
    values = {item.name: getattr(part, item.name) for item in fields(Rank) if item.name not in ("phases_s", "usage")}
    return Rank(**values, phases_s=phases_s, usage=used)
