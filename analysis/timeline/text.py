"""A timeline as text and as a JSON document: a step of rank 0 in parts, ranks compared, the error of their clocks."""

import statistics
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Literal

from tabulate import tabulate

from analysis import labels
from analysis.documents import Document, Number, about, filled, number
from analysis.stats.repeats import median
from analysis.text import counted
from analysis.timeline.launch import Launch, RankTimes
from analysis.timeline.split import EXCHANGE, PARTS, RankSteps, Steps, has_part, steps_by_rank, timed_steps
from train.record import recorded_config

WIDTH = 110

_OPERATION = ("copy", "wire", "unmarked")  # parts of one operation: they do not overlap each other
_LIBRARY = {"gloo": "Gloo", "mpi": "MPI on CPUs"}
_SHOWN_RANKS = 16
_NONE = "none here"


def report(launch: Launch, steps: Steps) -> str:
    """Return the tables and sentences of one launch; steps: empty where their parts are not known."""
    sections = [_title(launch)]
    if steps:
        sections += [_parts(steps), _ranks(launch)]
    sections.append("\n".join(textwrap.fill(sentence, WIDTH) for sentence in sentences(launch, steps)))
    return "\n\n".join(sections)


def _title(launch: Launch) -> str:
    config = launch.run.config
    exchange = config["distribution"]
    cycle = f", cycle {exchange['cycle_time_ms']:g} ms" if "cycle_time_ms" in exchange else ""
    hosts = counted(host_count(launch), "host")
    size = f"{len(launch.ranks)} ranks on {hosts}, batch {recorded_config.step_batch(config)}"
    design = f"{exchange['gradients']} gradients, {exchange['controller']}{cycle}"
    steps = len(timed_steps(launch.ranks[0]))
    return f"== {labels.name(config['model']['name'])}, {size}, {design}: {steps} timed steps"


def host_count(launch: Launch) -> int:
    """Return the number of hosts of a launch."""
    return len({times.rank.host for times in launch.ranks})


def _ms(values: Sequence[float]) -> str:
    """Return the median in ms, with its interval where there are enough values for one."""
    number = median([values])
    if not number.has_interval:
        return _plain(number.value)
    return f"{_plain(number.value)} ({_plain(number.low)} to {_plain(number.high)})"


def _plain(time_s: float) -> str:
    return f"{1e3 * time_s:.0f}" if abs(time_s) >= 0.1 else f"{1e3 * time_s:.3g}"


def _parts(steps: Steps) -> str:
    rows = []
    for name, label in PARTS.items():
        if name in EXCHANGE and not has_part(steps, name):
            rows.append([label, _NONE, ""])
            continue
        meanwhile = _ms([step[name].overlapped_s for step in steps]) if name in EXCHANGE else ""
        rows.append([label, _ms([step[name].time_s for step in steps]), meanwhile])
    return tabulate(rows, headers=["[ms a step of rank 0]", "median", "while it computed"], disable_numparse=True)


def _ranks(launch: Launch) -> str:
    """When each rank's gradients were ready, for those ranks that are last most often."""
    ranks = steps_by_rank(launch)
    if len(ranks) > _SHOWN_RANKS:
        ranks = sorted(ranks, key=lambda one: -statistics.median(one.behind_s))[:_SHOWN_RANKS]
    rows = [
        [f"{one.times.rank.rank} on {one.times.rank.host}", _ms(one.computing_s), _ms(one.behind_s)] for one in ranks
    ]
    headers = ["rank", "computing [ms a step]", "ready after the first rank [ms]"]
    return tabulate(rows, headers=headers, disable_numparse=True)


def sentences(launch: Launch, steps: Steps) -> Iterator[str]:
    """Yield what follows from the tables, and how to read the times."""
    if not steps:
        yield "A GPU computes, so the time at which gradients are ready is not known, nor what overlapped."
    elif not any(has_part(steps, name) for name in EXCHANGE):
        yield "Horovod exchanged nothing in these steps."
    else:
        yield from _exchange(launch, steps)
    yield _clocks(launch.ranks)
    yield (
        "Horovod is slower with its timeline: these times say what happens within a step, not how fast steps are. No "
        "other figure or table has them."
    )


def _exchange(launch: Launch, steps: Steps) -> Iterator[str]:
    operation_s = [sum(step[name].time_s for name in _OPERATION) for step in steps]
    overlapped_s = [sum(step[name].overlapped_s for name in _OPERATION) for step in steps]
    whole_s = statistics.median(operation_s)
    share = statistics.median(overlapped_s) / whole_s if whole_s else 0.0
    yield (
        f"Of {_ms(operation_s)} ms of copies and wire a step, rank 0 computed during {_ms(overlapped_s)} ms: "
        f"{100 * share:.0f} %."
    )
    exchange = launch.run.config["distribution"]
    if not has_part(steps, "queue") and exchange["controller"] in _LIBRARY:
        yield f"{_LIBRARY[exchange['controller']]} has no queue: Horovod's own thread does the exchange."
    if not has_part(steps, "copy") and exchange["gradients"] == "flat":
        yield (
            "One flat tensor needs no fusion buffer, so no copy is marked: the copy of the tensor, and its division by "
            "the number of ranks, are in what is not marked."
        )


def _clocks(ranks: Sequence[RankTimes]) -> str:
    """Return how exactly the times of the ranks are on the common clock."""
    unknown = [str(times.rank.rank) for times in ranks if times.clock_error_s is None]
    if unknown:
        return (
            f"How far the clocks of ranks {', '.join(unknown)} are from rank 0's could not be measured: their own "
            "clocks are used."
        )
    error_s = max(times.clock_error_s or 0.0 for times in ranks)
    if error_s == 0:
        return "All ranks are on one host, and have one clock."
    return f"The clocks of the hosts are known to ± {1e3 * error_s:.2g} ms, by the quickest of 100 questions to rank 0."


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
