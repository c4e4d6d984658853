"""Rows of a run that W&B plots, and values that it lists: pure functions of what was measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from itertools import zip_longest
from typing import Any

from train.record import usage
from train.record.record import PHASES, Epoch, RunRecord
from train.record.usage import HasUsage

Row = dict[str, Any]

AXES = ("timed/step", "epochs/epoch", "usage/time_s")


def record_rows(record: RunRecord) -> list[Row]:
    """Return all rows of a run: one a timed step (s, of the slowest rank), one an epoch, one a second with samples."""
    return step_rows(record) + epoch_rows(record.epochs) + usage_rows(record.ranks)


def step_rows(record: RunRecord) -> list[Row]:
    """Return a row a timed step.

    A run that resumed training has the losses of the launches before it, but only its own times: the last ones.
    """
    times_s = [max(times) for times in zip(*(rank.step_times_s for rank in record.ranks), strict=False)]
    before = max(0, len(record.losses) - len(times_s)) if record.epochs else 0
    steps = zip_longest([None] * before + times_s, record.losses)
    return [
        _known({"timed/step": step, "timed/step_time_s": time_s, "timed/loss": loss})
        for step, (time_s, loss) in enumerate(steps)
    ]


def epoch_rows(epochs: Sequence[Epoch]) -> list[Row]:
    """Return a row an epoch: losses, accuracies (fractions), durations in s."""
    return [_known({f"epochs/{key}": value for key, value in asdict(epoch).items()}) for epoch in epochs]


def usage_rows(ranks: Sequence[HasUsage]) -> list[Row]:
    """Return a row a second since the launch of the job: means over the ranks."""
    return [
        _known({f"usage/{key}": value for key, value in asdict(use).items()}) for use in usage.usage_by_second(ranks)
    ]


def _known(row: Row) -> Row:
    return {key: value for key, value in row.items() if value is not None}


def summary(record: RunRecord) -> dict[str, Any]:
    """Return the values that W&B lists: status, phases (s, of the slowest rank), and the record's summary."""
    facts: dict[str, Any] = {"status": record.status, "started_at": record.started_at, "job_s": record.job_s}
    if record.failure:
        facts["failure"] = record.failure.reason
    return record.summary | phases([rank.phases_s for rank in record.ranks]) | facts


def phases(by_rank: Sequence[dict[str, float]]) -> dict[str, float]:
    """Return the seconds of each phase so far, of the slowest rank."""
    return {
        f"phases_s/{phase}": max(times)
        for phase in PHASES
        if (times := [phases_s[phase] for phases_s in by_rank if phase in phases_s])
    }
