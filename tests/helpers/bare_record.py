"""The smallest complete run record."""

from record.schema import SCHEMA_VERSION, Rank, RunRecord


def bare_record(**changes) -> RunRecord:
    """Return a record of one rank and two timed steps; `changes` replace its fields."""
    rank = Rank(0, 0, 0, "n1", [0, 1], None, {"import": 2.0, "timed": 3.0}, [1.1], [1.0, 2.0], 4096)
    fields = dict(
        experiment="weak_scaling",
        point="tiny-nodes1",
        repeat=0,
        generation=1,
        config_hash="ab" * 32,
        config={"global_batch": 4},
        status="complete",
        failure=None,
        started_at="2026-01-02T03:04:05+00:00",
        command=["python"],
        job_s=5.0,
        cores_shared=False,
        ranks=[rank],
        environment=None,
        schema_version=SCHEMA_VERSION,
    )
    return RunRecord(**(fields | changes))
