"""The timeline of a launch as a JSON document."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from analysis.documents import Document, Number, about, filled, number
from analysis.stats.repeats import median
from analysis.timeline.launch import Launch
from analysis.timeline.split import EXCHANGE, PARTS, RankSteps, Steps, has_part, steps_by_rank, timed_steps
from analysis.timeline.text import host_count, sentences
from train.record import recorded_config


class RankTimeline(Document):
    """When the gradients of a rank were ready."""

    rank: int
    host: str
    computing_s: Annotated[Number | None, about("until its local gradients are ready; null: a GPU computes")]
    ready_after_first_s: Annotated[Number | None, about("how long after the first rank's; null: a GPU computes")]
    clock_error_s: Annotated[float | None, about("largest error of its time on rank 0's clock")]


class LaunchTimeline(Document):
    """The parts of the steps of a launch; each number is a median over its timed steps."""

    model: str
    point: str
    config_hash: str
    launched: Annotated[str, about("UTC")]
    hosts: int
    batch_per_rank: int
    gradients: Annotated[Literal["flat", "grouped", "separate"], about("how they are exchanged")]
    controller: Annotated[Literal["gloo", "mpi"], about("of Horovod")]
    cycle_time_ms: Annotated[float | None, about("of Horovod; null: not set")]
    timed_steps: int
    parts_s: Annotated[Mapping[str, Number], about("of a step of rank 0, where there are; empty: a GPU computes")]
    overlapped_s: Annotated[Mapping[str, Number], about("of these, while rank 0 computed")]
    ranks: Sequence[RankTimeline]
    sentences: Annotated[Sequence[str], about("what follows, in words")]
    trace: Annotated[str, about("the file for Perfetto that was written")]


def as_json(launch: Launch, steps: Steps, trace: Path) -> LaunchTimeline:
    """Return one launch; steps: the parts of each timed step, empty where they are not known."""
    run, exchange = launch.run, launch.run.config["distribution"]
    parts = [name for name in PARTS if steps and (name not in EXCHANGE or has_part(steps, name))]
    return filled(
        LaunchTimeline,
        run,
        model=run.config["model"]["name"],
        launched=run.started_at,
        hosts=host_count(launch),
        batch_per_rank=recorded_config.step_batch(run.config),
        gradients=exchange["gradients"],
        controller=exchange["controller"],
        cycle_time_ms=exchange.get("cycle_time_ms"),
        timed_steps=len(timed_steps(launch.ranks[0])),
        parts_s={name: _median([step[name].time_s for step in steps]) for name in parts},
        overlapped_s={name: _median([step[name].overlapped_s for step in steps]) for name in parts if name in EXCHANGE},
        ranks=[_rank(rank) for rank in steps_by_rank(launch)],
        sentences=[*sentences(launch, steps)],
        trace=str(trace),
    )


def _rank(rank: RankSteps) -> RankTimeline:
    return RankTimeline(
        rank=rank.times.rank.rank,
        host=rank.times.rank.host,
        computing_s=_median(rank.computing_s) if rank.computing_s else None,
        ready_after_first_s=_median(rank.behind_s) if rank.behind_s else None,
        clock_error_s=rank.times.clock_error_s,
    )


def _median(values: list[float]) -> Number:
    return number(replace(median([values]), covers="steps"))
