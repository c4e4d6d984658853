import socket
import struct
import threading
import time
from contextlib import nullcontext
from types import SimpleNamespace

import pytest

from record.schema import RankTimeline, StepAt
from tests.helpers.context import make_context
from tests.helpers.thread_ranks import on_all_ranks
from train.config.compose import load
from train.loop import rank_timeline as timeline
from train.loop.timed_steps import Steps

KEY = b"k" * 64


def space(*threads):
    """The output of TensorFlow's profiler for threads: number, begin in ns, and names, begins, durations in ps."""
    lines, kinds = [], {}
    for thread, timestamp_ns, *events in threads:
        line = SimpleNamespace(id=thread, name="worker", display_name="", timestamp_ns=timestamp_ns, events=[])
        for name, begin_ps, duration_ps in events:
            line.events.append(SimpleNamespace(metadata_id=name, offset_ps=begin_ps, duration_ps=duration_ps))
            kinds[name] = SimpleNamespace(name=name, display_name="")
        lines.append(line)
    return SimpleNamespace(planes=[SimpleNamespace(lines=lines, event_metadata=kinds)])


def test_operations_are_placed_by_the_begin_of_the_steps_to_the_picosecond():
    since_epoch_ns = 1_763_900_000_000_000_000
    steps = ("profiled steps", 2_000_000_000, 500_000_000_000)
    operations = ("Conv2D", 2_000_001_500, 300_000_000), ("before", 1_000_000_000, 1_000)
    later = (8, since_epoch_ns + 7_000, ("MatMul", 2_000_000_000, 1_000_000))
    assert timeline.operations(space((7, since_epoch_ns, steps, *operations), later)) == [
        ("worker/7", "Conv2D", 0.0015, 300.0),
        ("worker/7", "before", -1000.0, 0.001),
        ("worker/8", "MatMul", 7.0, 1.0),
    ]


def test_of_all_answers_the_quickest_gives_the_offset_of_a_clock(monkeypatch):
    asked_and_answered = iter([20.0, 24.0, 10.0, 12.0] + [20.0, 24.0] * 98)
    monkeypatch.setattr(timeline, "time", SimpleNamespace(time=lambda: next(asked_and_answered)))
    sent = {"send": lambda data: None, "receive": lambda: struct.pack("!d", 111.0)}
    assert timeline._ask(SimpleNamespace(socket=nullcontext(), **sent)) == timeline.ClockOffset(100.0, 1.0)


@pytest.fixture
def clock_offsets(monkeypatch):
    """Measure the clock offsets of ranks, which are threads on these hosts with clocks behind by so many seconds."""
    thread = threading.local()
    monkeypatch.setattr("train.loop.rank_timeline.time", SimpleNamespace(time=lambda: time.time() - thread.behind_s))
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


@pytest.mark.usefixtures("no_connections")
def test_a_clock_that_cannot_be_read_is_reported_on_every_rank(clock_offsets):
    (first, problems), (second, same_problems) = clock_offsets(["a", "b"], [0.0, 1.0])
    assert (first, second) == (timeline.ClockOffset(0.0, 0.0), None)
    assert problems == same_problems
    assert any("rank 1 on b: no TCP connection" in problem for problem in problems)


@pytest.mark.parametrize(("device", "computed_at"), [("cpu", 1001.5), ("gpu", None)])
def test_a_step_ends_before_the_next_begins_and_a_gpu_does_not_know_when_it_has_computed(
    monkeypatch, tmp_path, device, computed_at
):
    first = Steps([], [], [2.5, 0.5], [1001.0, 1003.0], [1001.5, 1003.25])  # preempted between its two clocks
    monkeypatch.setattr(timeline, "profile", lambda run, path: run(2))
    monkeypatch.setattr(timeline, "measure_clock_offset", lambda ranks, key: (None, ["rank 1 on b: refused"]))
    context = make_context(load([f"device={device}"]), folder=tmp_path)
    timeline.record(context, {"timed": first}, lambda count: Steps([], [], [1.0], [2000.0], [2000.0]))
    result = context.part.part.timeline
    assert result == RankTimeline(context.part.part.began_at, None, None, result.steps)
    assert [(step.phase, step.begun_at, step.ended_at) for step in result.steps] == [
        ("timed", 1001.0, 1003.0), ("timed", 1003.0, 1003.5), ("profiled", 2000.0, 2001.0)
    ]  # fmt: skip
    assert result.steps[0] == StepAt("timed", 1001.0, computed_at, 1003.0)
    assert context.part.part.notes == ["how far clocks are apart is not known: rank 1 on b: refused"]
