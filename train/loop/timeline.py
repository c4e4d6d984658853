"""The timeline of a rank: when it made its steps, by which clock, and which operations some of them ran.

It is recorded after the timed steps, nothing between their barriers. Horovod writes its own part from the start on.
"""

import gzip
import json
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import tensorflow as tf

from train.loop.timed_steps import Steps
from train.record import protocol
from train.record.record import RankTimeline, StepAt, StepPhase
from train.task import Context
from train.transport import links

Operation = tuple[str, str, float, float]  # thread, name, begin since that of the steps and duration, in microseconds

_PROFILED_STEPS = 2
_ALL = "profiled steps"  # what the profiler calls them: it tells when they began, by its own clock


def record(context: Context, steps: Mapping[StepPhase, Steps], run: Callable[[int], Steps]) -> None:
    """Record when the steps were made, and some more with TensorFlow's profiler. Every rank calls it.

    steps: so far. run: makes so many more of them.
    """
    assert context.folder
    profiled = profile(run, protocol.operations_path(context.folder, context.distribution.rank))
    offset, problems = links.measure_clock_offset(context.distribution, context.key)
    if context.distribution.rank == 0:
        context.part.add(notes=[f"how far clocks are apart is not known: {problem}" for problem in problems])
    by_phase: dict[StepPhase, Steps] = {**steps, "profiled": profiled}
    on_cpu = context.config.device == "cpu"
    context.part.add(
        timeline=RankTimeline(
            began_at=context.part.part.began_at,
            ahead_s=offset.ahead_s if offset else None,
            error_s=offset.error_s if offset else None,
            steps=[step for phase, made_steps in by_phase.items() for step in _steps(phase, made_steps, on_cpu)],
        )
    )


def _steps(phase: StepPhase, steps: Steps, on_cpu: bool) -> Iterator[StepAt]:
    for begun_at, time_s, computed_at in zip(steps.begun_at, steps.times_s, steps.computed_at, strict=True):
        yield StepAt(phase, begun_at, float(computed_at) if on_cpu else None, begun_at + time_s)


def profile(run: Callable[[int], Steps], path: Path) -> Steps:
    """Make some steps with TensorFlow's profiler, and leave the operations that each thread ran in them at `path`."""
    from tensorflow.tsl.profiler.protobuf import xplane_pb2  # loaded here alone: it belongs to the profiler

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        with tf.profiler.experimental.Trace(_ALL):
            began_at = time.time()
            steps = run(_PROFILED_STEPS)
        tf.profiler.experimental.stop()
        [written] = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(written.read_bytes())
    with gzip.open(path, "wt") as file:
        json.dump({"began_at": began_at, "operations": operations(space)}, file)
    return steps


def operations(space: Any) -> list[Operation]:
    """Return the operations of each thread, and each stream of a GPU, from the profiler's XSpace."""
    events = [
        (f"{line.display_name or line.name}/{line.id}", plane.event_metadata[event.metadata_id], line, event)
        for plane in space.planes
        for line in plane.lines
        for event in line.events
    ]
    # Whole picoseconds: as a fraction the time since the epoch would be a quarter of a microsecond off.
    named = [
        (thread, kind.display_name or kind.name, 1000 * line.timestamp_ns + event.offset_ps, event.duration_ps)
        for thread, kind, line, event in events
    ]
    [origin_ps] = [begin_ps for _, name, begin_ps, _ in named if name == _ALL]
    return [
        (thread, name, (begin_ps - origin_ps) / 1e6, duration_ps / 1e6)
        for thread, name, begin_ps, duration_ps in named
        if name != _ALL
    ]
