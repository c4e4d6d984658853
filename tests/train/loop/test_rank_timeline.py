import socket
import threading
import time
import types

import pytest

from tests.helpers.lazy import Lazy
from tests.helpers.thread_ranks import on_all_ranks
from train.transport import connections

KEY = b"k" * 64

pytestmark = pytest.mark.slow

timeline, profiler = Lazy("train.loop.rank_timeline"), Lazy("tensorflow.tsl.profiler.protobuf.xplane_pb2")


def space():
    """The output of TensorFlow's profiler for one thread: steps from 2 ms on, an operation in them and one before."""
    result = profiler.XSpace()
    plane = result.planes.add(name="/host:CPU")
    line = plane.lines.add(id=7, name="worker", timestamp_ns=1_763_900_000_000_000_000)
    for id, name, offset_ps, duration_ps in (
        (1, "profiled steps", 2_000_000_000, 500_000_000_000),
        (2, "Conv2D", 2_000_001_500, 300_000_000),
        (3, "before", 1_000_000_000, 1_000),
    ):
        plane.event_metadata[id].name = name
        line.events.add(metadata_id=id, offset_ps=offset_ps, duration_ps=duration_ps)
    return result


def test_operations_are_placed_by_the_begin_of_the_steps_to_the_picosecond():
    assert timeline.operations(space()) == [
        ("worker/7", "Conv2D", 0.0015, 300.0),
        ("worker/7", "before", -1000.0, 0.001),
    ]


@pytest.fixture
def clock_offsets(monkeypatch):
    """Measure the clock offsets of ranks, which are threads on these hosts with clocks behind by so many seconds."""
    thread = threading.local()
    monkeypatch.setattr(
        "train.loop.rank_timeline.time", types.SimpleNamespace(time=lambda: time.time() - thread.behind_s)
    )
    monkeypatch.setattr(socket, "gethostname", lambda: thread.host)

    def measure(names: list[str], behind_s: list[float]):
        def work(rank):
            thread.host, thread.behind_s = names[rank.rank], behind_s[rank.rank]
            return timeline.measure_clock_offset(rank, lambda: KEY)

        return on_all_ranks(len(names), work)

    return measure


def test_the_true_offset_is_within_the_error(clock_offsets):
    behind_s = [0.0, 0.0, 3600.0, -0.25]
    result = clock_offsets(["a", "a", "b", "c"], behind_s)
    assert all(problems == [] for _, problems in result)
    first, second, *others = [offset for offset, _ in result]
    assert first == second == timeline.ClockOffset(0.0, 0.0)  # on one host there is one clock
    for offset, truth_s in zip(others, behind_s[2:], strict=True):
        assert 0 < offset.error_s < 0.25
        # A time since the epoch resolves 0.24 microseconds.
        assert abs(offset.ahead_s - truth_s) <= offset.error_s + 1e-6


def test_a_clock_that_cannot_be_read_is_reported_on_every_rank(clock_offsets, monkeypatch):
    def refused(address):
        raise ConnectionError("no TCP connection")

    monkeypatch.setattr(connections, "open_connection", refused)
    monkeypatch.setattr(connections.accept, "__defaults__", (1, 0.2))
    (first, problems), (second, same_problems) = clock_offsets(["a", "b"], [0.0, 1.0])
    assert (first, second) == (timeline.ClockOffset(0.0, 0.0), None)
    assert problems == same_problems
    assert any("rank 1 on b: no TCP connection" in problem for problem in problems)
