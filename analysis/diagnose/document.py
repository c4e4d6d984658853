"""The diagnosis of one curve as plain values, for JSON. docs/diagnose.md describes each name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from analysis.diagnose import comparison_words
from analysis.diagnose.comparison import Compared, Comparison
from analysis.diagnose.job import Job
from analysis.diagnose.split import LOSSES, Split
from analysis.diagnose.straggler import Straggler
from analysis.diagnose.turns import Curve
from analysis.diagnose.verdict import Verdict
from analysis.diagnose.words import sentences
from analysis.stats.number import Number


def as_json(curve: Curve, found: Sequence[Split], verdict: Verdict, late: Straggler | None) -> dict[str, Any]:
    """One curve: its points with their parts, the largest loss of the largest point, the slowest rank, the sentences.

    A number with an interval is `{"value", "low", "high", "level", "n"}`; what is not known is null.
    """
    return {
        "model": curve.model,
        "series": curve.series,
        "machine": curve.machine,
        "design": "rounds" if curve.in_rounds else "launches",
        "launches": len(curve.records),
        "points": [_point(split) for split in found],
        "largest_loss": verdict.largest,
        "candidates": list(verdict.parts),
        "slowest_rank": _straggler(late),
        "sentences": list(sentences(curve, found[-1], verdict, late)),
    }


def _point(split: Split) -> dict[str, Any]:
    return {
        "nodes": split.point.nodes,
        "ranks": split.ranks,
        "batch_per_rank": split.point.batch_per_rank,
        "measured_s": split.measured.as_json(),
        "parts_s": {part: split.part(part).as_json() for part in split.parts},
        "efficiency_throughput": split.efficiency.as_json(),
        "efficiency_without": {part: split.without(part).as_json() for part in split.parts if part in LOSSES},
        "exchange_alone_s": _optional(split.exchange_alone),
        "exchange_hidden_s": _optional(split.hidden),
    }


def _optional(number: Number | None) -> dict[str, Any] | None:
    return None if number is None else number.as_json()


def _straggler(late: Straggler | None) -> dict[str, Any] | None:
    if late is None:
        return None
    return {
        "host": late.host,
        "rank": late.rank,
        "cores": list(late.cores),
        "behind_s": late.behind.as_json(),
        "certain": late.certain,
        "others_fraction": late.others_fraction,
        "stolen_fraction": late.stolen_fraction,
    }


def comparison(one: Comparison) -> dict[str, Any]:
    """The arms of one model on so many nodes: by what each but the first is longer, and the sentences."""
    return {
        "model": one.curve.model,
        "machine": one.curve.machine,
        "nodes": one.nodes,
        "first": one.curve.arm,
        "others": [_compared(arm) for arm in one.others],
        "sentences": list(comparison_words.sentences(one)),
    }


def _compared(arm: Compared) -> dict[str, Any]:
    return {
        "arm": arm.curve.arm,
        "longer_s": arm.longer.as_json(),
        "parts_longer_s": {part: number.as_json() for part, number in arm.parts.items()},
        "differs": arm.differs,
        "reasons": list(arm.reasons),
    }


def job(one: Job) -> dict[str, Any]:
    """The phases of the jobs of one point."""
    return {
        "model": one.model,
        "series": one.series,
        "nodes": one.nodes,
        "batch_per_rank": one.batch_per_rank,
        "job_s": one.whole.as_json(),
        "parts_s": {name: part.as_json() for name, part in one.parts.items()},
    }
