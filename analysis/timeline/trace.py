"""A timeline as Chrome's trace events, which Perfetto (ui.perfetto.dev) and chrome://tracing open.

The format: "Trace Event Format", Google, 2016. A process for each rank, and in it threads for its phases, its steps,
the parts of a step, each tensor that Horovod exchanged (on rank 0, which alone writes them down), and each thread of
TensorFlow in the steps with its profiler. All are complete events (X: begin and duration, in microseconds) and
instants (i), ascending, from the launch of the job on.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from analysis.timeline.launch import Launch, RankTimes, Span
from analysis.timeline.split import exchange_spans, union
from train.record.record import StepAt

# Numbers of threads, which no rank has: Perfetto takes a thread with the number of its process for its main one, and
# draws thread 0 within that.
_PHASES, _STEPS, _IN_STEP, _OTHERS, _TENSORS, _THREADS = 100_001, 100_002, 100_003, 100_004, 100_010, 200_000

Event = dict[str, Any]


def document(launch: Launch) -> dict[str, Any]:
    """Return the trace of a launch for JSON."""
    origin_s = min(phase.begin_s for times in launch.ranks for phase in times.phases)
    events = [event for times in launch.ranks for event in _rank(times, origin_s)]
    events += _horovod(launch, origin_s)
    names = [event for event in events if event["ph"] == "M"]
    timed = sorted((event for event in events if event["ph"] != "M"), key=lambda e: (e["ts"], -e.get("dur", 0.0)))
    run = launch.run
    about = {
        "experiment": run.experiment,
        "point": run.point,
        "config_hash": run.config_hash,
        "launched": run.started_at,
    }
    return {"traceEvents": [*names, *timed], "displayTimeUnit": "ms", "otherData": about}


def _rank(times: RankTimes, origin_s: float) -> Iterator[Event]:
    pid = times.rank.rank
    yield _named(pid, "process_name", f"rank {pid} on {times.rank.host}")
    yield {"ph": "M", "pid": pid, "tid": 0, "name": "process_sort_index", "args": {"sort_index": pid}}
    for tid, name in ((_PHASES, "phases"), (_STEPS, "steps"), (_IN_STEP, "in a step")):
        yield _named(pid, "thread_name", name, tid)
    for phase in times.phases:
        yield _complete((pid, _PHASES), phase.name, _us(phase.begin_s, origin_s), 1e6 * (phase.end_s - phase.begin_s))
    yield from _steps(pid, times.steps, origin_s)
    threads = {name: _THREADS + n for n, name in enumerate(dict.fromkeys(one.thread for one in times.operations))}
    for name, tid in threads.items():
        yield _named(pid, "thread_name", f"TensorFlow: {name}", tid)
    profiled_us = _us(times.profiled_at, origin_s)
    for operation in times.operations:
        at = profiled_us + operation.begin_us
        yield _complete((pid, threads[operation.thread]), operation.name, at, operation.duration_us)


def _steps(pid: int, steps: Sequence[StepAt], origin_s: float) -> Iterator[Event]:
    for number, step in enumerate(steps, 1):
        begin_us, whole_us = _us(step.begun_at, origin_s), 1e6 * (step.ended_at - step.begun_at)
        yield _complete((pid, _STEPS), f"step {number} ({step.phase.replace('_', ' ')})", begin_us, whole_us)
        if step.computed_at is not None:
            computing_us = 1e6 * (step.computed_at - step.begun_at)
            yield _complete((pid, _IN_STEP), "computing", begin_us, computing_us)
            rest = begin_us + computing_us, whole_us - computing_us
            yield _complete((pid, _IN_STEP), "waiting, exchange and update", *rest)


def _horovod(launch: Launch, origin_s: float) -> Iterator[Event]:
    """Yield a thread for each tensor of the steps, and one for all others: each variable has a broadcast."""
    timeline = launch.horovod
    exchanged = [span.tensor for step in launch.ranks[0].steps for span in exchange_spans(step, timeline.spans)]
    tensors = {name: _TENSORS + n for n, name in enumerate(dict.fromkeys(exchanged))}
    for name, tid in tensors.items():
        yield _named(0, "thread_name", f"Horovod: {name}", tid)
    for span in (span for span in timeline.spans if span.tensor in tensors):
        begin_us = _us(span.begin_s, origin_s)
        yield _complete((0, tensors[span.tensor]), span.name, begin_us, 1e6 * (span.end_s - span.begin_s))
    for ready in (ready for ready in timeline.ready if ready.tensor in tensors):
        at = {"ts": _us(ready.at_s, origin_s), "pid": 0, "tid": tensors[ready.tensor]}
        yield {"ph": "i", "name": f"rank {ready.rank} is ready", "s": "t", **at}
    yield from _others([span for span in timeline.spans if span.tensor not in tensors], origin_s)


def _others(spans: Sequence[Span], origin_s: float) -> Iterator[Event]:
    """Yield the times in which Horovod exchanged other tensors: broadcasts, barriers, its messages."""
    yield _named(0, "thread_name", "Horovod: all other tensors", _OTHERS)
    for begin_s, end_s in union((span.begin_s, span.end_s) for span in spans):
        names = dict.fromkeys(s.name for s in spans if s.kind == "operation" and begin_s <= s.begin_s <= end_s)
        yield _complete(
            (0, _OTHERS), ", ".join(names) or "negotiation", _us(begin_s, origin_s), 1e6 * (end_s - begin_s)
        )


def _us(at_s: float, origin_s: float) -> float:
    return round(max(0.0, 1e6 * (at_s - origin_s)), 3)


def _complete(lane: tuple[int, int], name: str, begin_us: float, duration_us: float) -> Event:
    """Return a complete event; lane: process and thread."""
    times = {"ts": round(begin_us, 3), "dur": round(max(0.0, duration_us), 3)}
    return {"ph": "X", "name": name, **times, "pid": lane[0], "tid": lane[1]}


def _named(pid: int, kind: str, name: str, tid: int = 0) -> Event:
    return {"ph": "M", "pid": pid, "tid": tid, "name": kind, "args": {"name": name}}
