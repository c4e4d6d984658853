import json
from pathlib import Path

import pytest

from analysis import TableError, timeline
from analysis.study import Study
from analysis.timeline import Span, find_launches, step_parts
from record.schema import StepAt
from tests.helpers.run_records import make_record, save
from tests.helpers.timelines import horovod_events, launch_with_timeline, load


def test_the_newest_of_each_run_and_only_launches_with_a_timeline(tmp_path):
    save(make_record("timeline"), tmp_path)
    launch_with_timeline(tmp_path, "vgg16")
    launch_with_timeline(tmp_path)
    newest = launch_with_timeline(tmp_path, generation=2)
    assert find_launches(Study(tmp_path).records, ["resnet50"]) == [newest]
    assert len(find_launches(Study(tmp_path).records)) == 2


def test_a_file_that_was_changed_or_is_missing_is_named(tmp_path):
    path = launch_with_timeline(tmp_path)
    timeline_file = path.with_name("horovod-timeline.json")
    timeline_file.write_text(timeline_file.read_text() + " ")
    with pytest.raises(TableError, match=r"horovod-timeline.json: not the file of the record beside it"):
        load(path)
    path.with_name("operations-1.json.gz").unlink()
    timeline_file.write_text(timeline_file.read_text()[:-1])
    with pytest.raises(TableError, match=r"operations-1.json.gz: No such file"):
        load(path)


KINDS = {
    **dict.fromkeys(("QUEUE", "WAIT_FOR_OTHER_TENSOR_DATA"), "queue"),
    **dict.fromkeys(("MEMCPY_IN_FUSION_BUFFER", "INIT_FUSION_BUFFER"), "copy"),
    **dict.fromkeys(("NCCL_ALLREDUCE", "MPI_ALLREDUCE"), "wire"),
}


@pytest.mark.parametrize("name", KINDS)
def test_what_an_operation_contains(name):
    events = [event | {"name": name} if event.get("name") == "GLOO_ALLREDUCE" else event for event in horovod_events(1)]
    kinds = [span.kind for span in timeline.horovod_timeline(events).spans[1:]]
    assert kinds == ["negotiation", KINDS[name], "operation"]
    assert len(timeline.horovod_timeline(events[:-1]).spans) == 3  # without the operation, which has not ended


@pytest.mark.parametrize(
    "text", ["", json.dumps(horovod_events(1))[:-20], "[]", "[1]", '[{"ph": "E", "ts": 1, "pid": 1}]']
)
def test_a_file_that_is_not_whole_is_named(text):
    with pytest.raises(TableError, match=r"horovod-timeline.json: not a whole timeline of Horovod .*FORCE=1"):
        timeline.read_horovod(text.encode(), Path("horovod-timeline.json"))


STEP = StepAt("timed", 100.0, 100.5, 101.0)


def part_times(ready_s, *states):
    """Return the times of the parts of a step, and how much of each overlaps computing.

    ready_s: when each rank is ready; states: tensor, kind, begin and end; all from the begin of the step, in s.
    """
    spans = [Span(tensor, kind, 100 + begin, 100 + end, kind) for tensor, kind, begin, end in states]
    parts = step_parts(STEP, [100 + s for s in ready_s], spans)
    return {name: part.time_s for name, part in parts.items()}, {n: part.overlapped_s for n, part in parts.items()}


def test_the_parts_add_up_where_another_rank_was_ready_first():
    exchange = ("t", "negotiation", 0.45, 0.52), ("t", "operation", 0.55, 0.9), ("t", "wire", 0.55, 0.9)
    times, overlapped = part_times([0.5, 0.4], *exchange)
    assert (times["negotiation"], overlapped["negotiation"]) == pytest.approx((0.07, 0.05))
    assert times["cycle"] == pytest.approx(0.03)  # the answer travels
    assert times["late"] == overlapped["late"] == pytest.approx(0.05)
    assert sum(times[n] - overlapped[n] for n in times if n not in ("late", "step")) == pytest.approx(1.0)


def test_what_is_exchanged_while_rank_0_computes_overlaps():
    first = ("a", "negotiation", 0.2, 0.25), ("a", "operation", 0.25, 0.45), ("a", "copy", 0.25, 0.27)
    second = ("b", "negotiation", 0.4, 0.55), ("b", "operation", 0.55, 0.8), ("b", "copy", 0.55, 0.56)
    wire = ("a", "wire", 0.27, 0.45), ("b", "wire", 0.56, 0.8)
    times, overlapped = part_times([0.5, 0.5], *first, *second, *wire)
    parts = {name: (times[name], overlapped[name]) for name in ("negotiation", "wire", "copy")}
    expected = {"negotiation": (0.2, 0.15), "wire": (0.42, 0.18), "copy": (0.03, 0.02)}
    assert parts == {name: pytest.approx(pair) for name, pair in expected.items()}
    assert [times[name] for name in ("cycle", "unmarked", "after")] == pytest.approx([0, 0, 0.2])


@pytest.mark.parametrize(
    ("states", "expected"),
    [
        ([("a", "wire", 0.6, 0.8), ("b", "wire", 0.7, 0.9)], {"wire": 0.3}),
        # A barrier that another rank begins early is not in the step.
        ([("t", "wire", 0.6, 0.8), ("barrier", "negotiation", 0.95, 1.1)], {"negotiation": 0}),
        ([("t", "wire", -0.5, -0.1), ("t", "wire", 1.2, 1.4)], {"wire": 0, "cycle": 0, "after": 0.5}),
    ],
)
def test_states_count_once_and_in_their_step_alone(states, expected):
    times, _ = part_times([0.5], *states)
    assert {name: times[name] for name in expected} == pytest.approx(expected)
