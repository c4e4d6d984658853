"""What a timeline shows, as a document and as text, and its trace for Perfetto (ui.perfetto.dev) and chrome://tracing.

The format of the trace: "Trace Event Format", Google, 2016. A process for each rank, and in it threads for its phases,
its steps, the parts of a step, each tensor that Horovod exchanged (on rank 0, which alone writes them down), and each
thread of TensorFlow in the steps with its profiler. All are complete events (X: begin and duration, in microseconds)
and instants (i), ascending, from the launch of the job on.
"""

import json
import math
import statistics
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any, Literal

import pandas as pd

from analysis import labels
from analysis.documents import Document, NumberField, about, filled
from analysis.stats import Number
from analysis.stats.repeats import typical
from analysis.timeline import (
    EXCHANGE,
    PARTS,
    RankTimes,
    Span,
    TimedEvent,
    TimedSteps,
    TracedLaunch,
    exchange_spans,
    has_part,
    steps_by_rank,
    steps_of_rank_0,
    timed_steps,
)
from common.grouping import grouped
from common.terminal import counted, paragraph, text_table
from record import recorded_config
from record.schema import StepAt

_OPERATION = ("copy", "wire", "unmarked")  # parts of one operation: they do not overlap each other
_LIBRARY = {"gloo": "Gloo", "mpi": "MPI on CPUs"}
_SHOWN_RANKS = 16


class RankReadiness(Document):
    """When the gradients of a rank were ready."""

    rank: int
    host: str
    computing_s: Annotated[NumberField | None, about("until its local gradients are ready; null: a GPU computes")]
    ready_after_first_s: Annotated[NumberField | None, about("how long after the first rank's; null: a GPU computes")]
    clock_error_s: Annotated[float | None, about("largest error of its time on rank 0's clock")]


class LaunchTimeline(Document):
    """The parts of the steps of a launch; each number is typical of its timed steps."""

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
    parts_s: Annotated[Mapping[str, NumberField], about("of a step of rank 0, where there are; empty: a GPU computes")]
    overlapped_s: Annotated[Mapping[str, NumberField], about("of these, while rank 0 computed")]
    ranks: Sequence[RankReadiness]
    sentences: Annotated[Sequence[str], about("what follows, in words")]
    trace: Annotated[str, about("the file for Perfetto that was written")]


def answer(launch: TracedLaunch, trace: Path) -> LaunchTimeline:
    """Return what one launch shows; trace: the file that was written."""
    run, exchange, steps = launch.run, launch.run.config["distribution"], steps_of_rank_0(launch)
    parts = [name for name in PARTS if steps and (name not in EXCHANGE or has_part(steps, name))]
    exchanged = [name for name in parts if name in EXCHANGE]
    return filled(
        LaunchTimeline,
        run,
        model=run.config["model"]["name"],
        launched=run.started_at,
        hosts=len({times.rank.host for times in launch.ranks}),
        batch_per_rank=recorded_config.step_batch(run.config),
        gradients=exchange["gradients"],
        controller=exchange["controller"],
        cycle_time_ms=exchange.get("cycle_time_ms"),
        timed_steps=len(timed_steps(launch.ranks[0])),
        parts_s={name: _typical([step[name].time_s for step in steps]) for name in parts},
        overlapped_s={name: _typical([step[name].overlapped_s for step in steps]) for name in exchanged},
        ranks=[
            RankReadiness(
                rank=times.rank.rank,
                host=times.rank.host,
                computing_s=_typical(computing_s) if computing_s else None,
                ready_after_first_s=_typical(behind_s) if behind_s else None,
                clock_error_s=times.clock_error_s,
            )
            for times, computing_s, behind_s in steps_by_rank(launch)
        ],
        sentences=[*sentences(launch, steps)],
        trace=str(trace),
    )


def _typical(values: list[float]) -> Number:
    return replace(typical([values]), variation="between steps")


def report(timeline: LaunchTimeline) -> str:
    """Return the tables and sentences of one launch; without tables where the parts of steps are not known."""
    sections = [_title(timeline)]
    if timeline.parts_s:
        sections += [_parts(timeline), _ranks(timeline.ranks)]
    sections.append("\n".join(map(paragraph, timeline.sentences)))
    return "\n\n".join(sections)


def _title(timeline: LaunchTimeline) -> str:
    cycle = "" if timeline.cycle_time_ms is None else f", cycle {timeline.cycle_time_ms:g} ms"
    size = f"{len(timeline.ranks)} ranks on {counted(timeline.hosts, 'host')}, batch {timeline.batch_per_rank}"
    design = f"{timeline.gradients} gradients, {timeline.controller}{cycle}"
    return paragraph(f"== {labels.name(timeline.model)}, {size}, {design}: {timeline.timed_steps} timed steps")


def _ms(time_s: Number) -> str:
    return time_s.scaled(1e3).text(".3g")


def _parts(timeline: LaunchTimeline) -> str:
    parts, overlapped = timeline.parts_s, timeline.overlapped_s
    rows = [
        [label, _ms(parts[name]) if name in parts else "none here", _ms(overlapped[name]) if name in overlapped else ""]
        for name, label in PARTS.items()
    ]
    return text_table(pd.DataFrame(rows, columns=["[ms a step of rank 0]", "typical", "while it computed"]))


def _ranks(ranks: Sequence[RankReadiness]) -> str:
    rows = [(r, r.computing_s, r.ready_after_first_s) for r in ranks if r.computing_s and r.ready_after_first_s]
    if len(rows) > _SHOWN_RANKS:  # the latest ones
        rows = sorted(rows, key=lambda row: -row[2].value)[:_SHOWN_RANKS]
    cells = [(f"{rank.rank} on {rank.host}", _ms(computing_s), _ms(behind_s)) for rank, computing_s, behind_s in rows]
    headers = ["rank", "computing [ms a step]", "ready after the first rank [ms]"]
    return text_table(pd.DataFrame(cells, columns=headers))


def sentences(launch: TracedLaunch, steps: TimedSteps) -> Iterator[str]:
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


def _exchange(launch: TracedLaunch, steps: TimedSteps) -> Iterator[str]:
    operation_s = [sum(step[name].time_s for name in _OPERATION) for step in steps]
    overlapped_s = [sum(step[name].overlapped_s for name in _OPERATION) for step in steps]
    whole_s = statistics.median(operation_s)
    share = statistics.median(overlapped_s) / whole_s if whole_s else 0.0
    yield (
        f"Of {_ms(_typical(operation_s))} ms of copies and wire a step, rank 0 computed during "
        f"{_ms(_typical(overlapped_s))} ms: {100 * share:.0f} %."
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


# Numbers of threads, which no rank has: Perfetto takes a thread with the number of its process for its main one, and
# draws thread 0 within that.
_PHASES, _STEPS, _IN_STEP, _OTHER_TENSORS, _TENSORS, _THREADS = 100_001, 100_002, 100_003, 100_004, 100_010, 200_000

Event = dict[str, Any]


def trace(launch: TracedLaunch) -> dict[str, Any]:
    """Return the trace of a launch for JSON."""
    origin_s = min(begin_s for times in launch.ranks for _, begin_s, _ in times.phases)
    events = [event for times in launch.ranks for event in _rank_events(times, origin_s)]
    events += _horovod_events(launch, origin_s)
    names = [event for event in events if event["ph"] == "M"]
    timed = sorted((event for event in events if event["ph"] != "M"), key=lambda e: (e["ts"], -e.get("dur", 0.0)))
    run = launch.run
    about = {"experiment": run.experiment, "point": run.point, "config_hash": run.config_hash}
    about |= {"launched": run.started_at}
    return {"traceEvents": [*names, *timed], "displayTimeUnit": "ms", "otherData": about}


def _rank_events(times: RankTimes, origin_s: float) -> Iterator[Event]:
    pid = times.rank.rank
    yield _named("process_name", pid, 0, f"rank {pid} on {times.rank.host}")
    yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_sort_index", "args": {"sort_index": pid}}
    yield from _thread(pid, _PHASES, "phases", times.phases, origin_s)
    steps = [
        (f"step {nth} ({step.phase.replace('_', ' ')})", step.begun_at, step.ended_at)
        for nth, step in enumerate(times.steps, 1)
    ]
    yield from _thread(pid, _STEPS, "steps", steps, origin_s)
    yield from _thread(pid, _IN_STEP, "in a step", _parts_in_steps(times.steps), origin_s)
    operations = grouped(times.operations, lambda operation: operation.thread)
    for tid, (thread, in_thread) in enumerate(operations.items(), _THREADS):
        profiled = [(o.name, o.begin_us / 1e6, (o.begin_us + o.duration_us) / 1e6) for o in in_thread]
        # Seconds since the epoch are no more precise than 0.2 us.
        yield from _thread(pid, tid, f"TensorFlow: {thread}", profiled, origin_s - times.profiled_at)


def _parts_in_steps(steps: Sequence[StepAt]) -> Iterator[TimedEvent]:
    for step in steps:
        if step.computed_at is not None:
            yield "computing", step.begun_at, step.computed_at
            yield "waiting, exchange and update", step.computed_at, step.ended_at


def _horovod_events(launch: TracedLaunch, origin_s: float) -> Iterator[Event]:
    """Yield a thread for each tensor of the steps, and one for all others: each variable has a broadcast."""
    spans = grouped(launch.horovod.spans, lambda span: span.tensor)
    ready = grouped(launch.horovod.ready, lambda rank: rank.tensor)
    steps = launch.ranks[0].steps
    exchanged = dict.fromkeys(s.tensor for step in steps for s in exchange_spans(step, launch.horovod.spans))
    for tid, tensor in enumerate(exchanged, _TENSORS):
        times = [(span.name, span.begin_s, span.end_s) for span in spans.pop(tensor)]
        yield from _thread(0, tid, f"Horovod: {tensor}", times, origin_s)
        for rank in ready.get(tensor, ()):
            at = {"ts": _us(rank.at_s - origin_s), "pid": 0, "tid": tid}
            yield {"ph": "i", "name": f"rank {rank.rank} is ready", "s": "t", **at}
    others = _other_exchanges([span for spans_of_tensor in spans.values() for span in spans_of_tensor])
    yield from _thread(0, _OTHER_TENSORS, "Horovod: all other tensors", others, origin_s)


def _other_exchanges(spans: Sequence[Span]) -> Iterator[TimedEvent]:
    """Yield the times in which Horovod exchanged other tensors: broadcasts, barriers, its messages."""
    together: list[list[Span]] = []  # each list: those that overlap or touch
    end_s = -math.inf
    for span in sorted(spans, key=lambda span: span.begin_s):
        if span.begin_s > end_s:
            together.append([])
        together[-1].append(span)
        end_s = max(end_s, span.end_s)
    for group in together:
        names = dict.fromkeys(span.name for span in group if span.kind == "operation")
        yield ", ".join(names) or "negotiation", group[0].begin_s, max(span.end_s for span in group)


def _thread(pid: int, tid: int, name: str, times: Iterable[TimedEvent], origin_s: float) -> Iterator[Event]:
    """Yield the name of a thread of a process, and its events."""
    yield _named("thread_name", pid, tid, name)
    for event, begin_s, end_s in times:
        times_us = {"ts": _us(begin_s - origin_s), "dur": _us(end_s - begin_s)}
        yield {"ph": "X", "name": event, **times_us, "pid": pid, "tid": tid}


def _us(time_s: float) -> float:
    return round(max(0.0, 1e6 * time_s), 3)


def _named(kind: str, pid: int, tid: int, name: str) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}}


def write_trace(launch: TracedLaunch, folder: Path) -> Path:
    """Write the trace of a launch into a folder, and return its path. The same launch gives the same bytes."""
    run = launch.run
    repeat = f"-r{run.repeat}" if run.repeat else ""
    path = folder / f"timeline-{run.point}-{run.config_hash[:8]}{repeat}.json"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(trace(launch), allow_nan=False))
    return path
