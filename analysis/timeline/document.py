"""A timeline for programs; analysis/output.schema.json describes it."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from analysis.stats import repeats
from analysis.timeline import split, words
from analysis.timeline.joined import Joined
from analysis.timeline.split import PARTS, RankSteps, Steps
from train.record import batch


def as_json(joined: Joined, steps: Steps) -> dict[str, Any]:
    """One launch. Numbers are medians over its timed steps.

    steps: the parts of each timed step; none where nobody knows them.
    """
    run, exchange = joined.run, joined.run.config["distribution"]
    seen = [name for name in PARTS if steps and (name not in split.EXCHANGE or split.seen(steps, name))]
    return {
        "model": run.config["model"]["name"],
        "point": run.point,
        "config_hash": run.config_hash,
        "launched": run.started_at,
        "hosts": len({of.rank.host for of in joined.ranks}),
        "batch_per_rank": batch.of_step(run.config),
        "gradients": exchange["gradients"],
        "controller": exchange["controller"],
        "cycle_time_ms": exchange.get("cycle_time_ms"),
        "timed_steps": len(split.timed_steps(joined.ranks[0])),
        "parts_s": {name: _number([step[name].time_s for step in steps]) for name in seen},
        "overlapped_s": {
            name: _number([step[name].overlapped_s for step in steps]) for name in seen if name in split.EXCHANGE
        },
        "ranks": [_rank(found) for found in split.of_ranks(joined)],
        "sentences": [*words.sentences(joined, steps)],
    }


def _rank(found: RankSteps) -> dict[str, Any]:
    return {
        "rank": found.of.rank.rank,
        "host": found.of.rank.host,
        "computing_s": _number(found.computing_s) if found.computing_s else None,
        "ready_after_first_s": _number(found.behind_s) if found.behind_s else None,
        "clock_error_s": found.of.error_s,
    }


def _number(values: list[float]) -> dict[str, Any]:
    return replace(repeats.median([values]), covers="steps").as_json()
