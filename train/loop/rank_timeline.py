"""The timeline of a rank: the times of its steps, the offset of its clock, and the operations of some steps.

It is recorded after the timed steps, not between their barriers. Horovod writes its own part from the start on.

Clocks are compared as NTP does (RFC 5905, section 8). A rank asks rank 0 for the time, often. Rank 0 answers between
the question and the arrival of the answer. So the offset of its clock is the answer minus the middle of the two, with
an error of at most half the round trip. The quickest answer counts.
"""

import gzip
import json
import math
import socket
import struct
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from record import protocol
from record.schema import RankTimeline, StepAt, StepPhase
from train.loop.timed_steps import Steps
from train.task import Context
from train.transport import connections
from train.transport.tcp_group import AllRanks, listeners

Operation = tuple[str, str, float, float]  # thread, name, begin since that of the steps and duration, in microseconds

_PROFILED_STEPS = 2
_PROFILED = "profiled steps"  # their name in the profile, which has their begin by its own clock
_QUESTIONS = 100
_TIME = struct.Struct("!d")


def record(context: Context, steps: Mapping[StepPhase, Steps], run: Callable[[int], Steps]) -> None:
    """Record when the steps were made, and some more with TensorFlow's profiler. Every rank calls it.

    steps: those so far. run: makes more of them.
    """
    assert context.folder
    profiled = profile(run, protocol.operations_path(context.folder, context.distribution.rank))
    offset, problems = measure_clock_offset(context.distribution, context.key)
    if context.distribution.rank == 0:
        context.part.add(notes=[f"how far clocks are apart is not known: {problem}" for problem in problems])
    by_phase: dict[StepPhase, Steps] = {**steps, "profiled": profiled}
    on_cpu = context.config.device == "cpu"
    context.part.add(
        timeline=RankTimeline(
            began_at=context.part.part.began_at,
            ahead_s=offset.ahead_s if offset else None,
            error_s=offset.error_s if offset else None,
            steps=[step for phase_steps in by_phase.items() for step in _steps(*phase_steps, on_cpu)],
        )
    )


def _steps(phase: StepPhase, steps: Steps, on_cpu: bool) -> Iterator[StepAt]:
    """Yield when each step was made. Two clocks are read at its begin: preempted in between, it would end too late."""
    next_begun_at = [*steps.begun_at[1:], math.inf]
    moments = zip(steps.begun_at, steps.times_s, steps.computed_at, next_begun_at, strict=True)
    for begun_at, time_s, computed_at, next_at in moments:
        yield StepAt(phase, begun_at, float(computed_at) if on_cpu else None, min(begun_at + time_s, next_at))


def profile(run: Callable[[int], Steps], path: Path) -> Steps:
    """Make some steps with TensorFlow's profiler, and leave the operations that each thread ran in them at `path`."""
    import tensorflow as tf
    from tensorflow.tsl.profiler.protobuf import xplane_pb2

    with tempfile.TemporaryDirectory() as folder:
        tf.profiler.experimental.start(folder)
        with tf.profiler.experimental.Trace(_PROFILED):
            began_at = time.time()
            steps = run(_PROFILED_STEPS)
        tf.profiler.experimental.stop()
        [profile_path] = Path(folder).rglob("*.xplane.pb")
        space = xplane_pb2.XSpace.FromString(profile_path.read_bytes())
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
    [origin_ps] = [begin_ps for _, name, begin_ps, _ in named if name == _PROFILED]
    return [
        (thread, name, (begin_ps - origin_ps) / 1e6, duration_ps / 1e6)
        for thread, name, begin_ps, duration_ps in named
        if name != _PROFILED
    ]


@dataclass(frozen=True)
class ClockOffset:
    """How far rank 0's clock is ahead of another one, in seconds."""

    ahead_s: float
    error_s: float  # at most


def measure_clock_offset(ranks: AllRanks, key: Callable[[], bytes]) -> tuple[ClockOffset | None, list[str]]:
    """Return the offset of rank 0's clock to this rank's, None if it could not be measured, and all ranks' problems.

    Every rank calls it. Ranks on rank 0's host have its clock. key: returns the secret of the job.
    """
    host = socket.gethostname()
    with listeners(ranks) as (listener, addresses):
        hosts = ranks.gather(host, str)
        remote = [rank for rank, rank_host in enumerate(hosts) if rank_host != hosts[0]]
        offset, problem = ClockOffset(0.0, 0.0) if host == hosts[0] else None, ""
        try:
            if ranks.rank == 0:
                _answer(connections.accept(listener, key(), len(remote)))
            elif ranks.rank in remote:
                offset = _ask(connections.connect(addresses[0], key(), ranks.rank))
        except OSError as error:
            problem = f"rank {ranks.rank} on {host}: {error}"
        problems = [text for text in ranks.gather(problem, str) if text]
    return offset, problems


def _answer(accepted: connections.Accepted) -> None:
    """Send these ranks the time as often as they ask, one rank after the other. Raises OSError."""
    for _, channel in accepted:
        with channel.socket:
            for _ in range(_QUESTIONS):
                channel.receive()
                channel.send(_TIME.pack(time.time()))


def _ask(channel: connections.Channel) -> ClockOffset:
    """Return how far the clock of the other end is ahead of this one. Raises OSError."""
    offsets = []
    with channel.socket:
        for _ in range(_QUESTIONS):
            asked_at = time.time()
            channel.send(b"")
            answer = channel.receive()
            answered_at = time.time()
            [remote_time] = _TIME.unpack(answer)
            offsets.append(ClockOffset(remote_time - (asked_at + answered_at) / 2, (answered_at - asked_at) / 2))
    return min(offsets, key=lambda offset: offset.error_s)
