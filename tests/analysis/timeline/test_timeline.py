import json

import pytest

from analysis import TableError, timeline
from analysis.study import Study
from analysis.timeline import Span, find_launches, step_parts, steps_of_rank_0, union, within, without
from tests.helpers.own_records import make_record, save
from tests.helpers.timelines import BEGAN_S, STEPS, begin_s, horovod_events, launch_with_timeline, load
from train.record.record import StepAt


def test_all_ranks_are_on_the_clock_of_rank_0(tmp_path):
    launch = load(launch_with_timeline(tmp_path))
    for times in launch.ranks:
        assert times.phases[0] == ("start", BEGAN_S - 0.5, BEGAN_S)
        assert times.phases[1].begin_s == BEGAN_S
        assert times.steps[0].begun_at == pytest.approx(begin_s(0))
        assert times.profiled_at == pytest.approx(begin_s(12))
    assert [times.clock_error_s for times in launch.ranks] == [0.0, 0.0002]


def test_the_newest_of_each_run_and_only_launches_with_a_timeline(tmp_path):
    save(make_record("timeline"), tmp_path)
    launch_with_timeline(tmp_path, "vgg16")
    launch_with_timeline(tmp_path)
    newest = launch_with_timeline(tmp_path, generation=2)
    assert find_launches(Study(tmp_path).records, ["resnet50"]) == [newest]
    assert len(find_launches(Study(tmp_path).records)) == 2


def test_a_file_that_was_changed_or_is_missing_is_named(tmp_path):
    path = launch_with_timeline(tmp_path)
    written = path.with_name("horovod-timeline.json")
    written.write_text(written.read_text() + " ")
    with pytest.raises(TableError, match=r"horovod-timeline.json: not the file of the record beside it"):
        load(path)
    path.with_name("operations-1.json.gz").unlink()
    written.write_text(written.read_text()[:-1])
    with pytest.raises(TableError, match=r"operations-1.json.gz: No such file"):
        load(path)


def test_states_are_named_timed_and_separated():
    negotiated, wire, operation = (
        span for span in timeline.horovod_timeline(horovod_events(1)).spans if span.tensor == "gradients"
    )
    assert [span.kind for span in (negotiated, wire, operation)] == ["negotiation", "wire", "operation"]
    assert (wire.tensor, wire.name) == ("gradients", "GLOO_ALLREDUCE")
    assert (wire.begin_s, wire.end_s) == pytest.approx((begin_s(0) + 0.65, begin_s(0) + 0.88), abs=1e-6)


def test_the_first_time_it_says_when_each_rank_was_ready():
    ready = timeline.horovod_timeline(horovod_events(3)).ready
    assert [(one.rank, one.tensor) for one in ready] == [(0, "gradients"), (1, "gradients")]
    assert ready[1].at_s == pytest.approx(begin_s(0) + 0.6, abs=1e-6)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("QUEUE", "queue"),
        ("WAIT_FOR_OTHER_TENSOR_DATA", "queue"),
        ("MEMCPY_IN_FUSION_BUFFER", "copy"),
        ("INIT_FUSION_BUFFER", "copy"),
        ("NCCL_ALLREDUCE", "wire"),
        ("MPI_ALLREDUCE", "wire"),
    ],
)
def test_what_an_operation_contains(name, kind):
    events = horovod_events(1)
    events = [event | {"name": name} if event.get("name") == "GLOO_ALLREDUCE" else event for event in events]
    assert [span.kind for span in timeline.horovod_timeline(events).spans[1:]] == ["negotiation", kind, "operation"]


def test_what_had_not_ended_is_left_out():
    whole = horovod_events(2)
    assert len(timeline.horovod_timeline(whole[:-1]).spans) == 6
    assert len(timeline.horovod_timeline(whole).spans) == 7


@pytest.mark.parametrize("text", ["", json.dumps(horovod_events(1))[:-20], "[]", '[{"ph": "E", "ts": 1, "pid": 1}]'])
def test_a_file_that_is_not_whole_is_named(tmp_path, text):
    path = tmp_path / "horovod-timeline.json"
    path.write_text(text)
    with pytest.raises(TableError, match=r"horovod-timeline.json: not a whole timeline of Horovod .*FORCE=1"):
        timeline.read_horovod(path)


STEP = StepAt("timed", 100.0, 100.5, 101.0)


def spans(*states):
    """The spans of tensors: name, kind, begin and end after the begin of the step."""
    return [Span(tensor, kind, 100 + begin, 100 + end, kind) for tensor, kind, begin, end in states]


def test_the_parts_of_a_step_with_one_tensor_add_up_to_it():
    exchange = spans(
        ("t", "negotiation", 0.51, 0.62), ("t", "operation", 0.62, 0.9), ("t", "wire", 0.65, 0.88)
    )  # fmt: skip
    parts = step_parts(STEP, [100.5, 100.6], exchange)
    times = {name: part.time_s for name, part in parts.items()}
    assert times == pytest.approx(
        {"computing": 0.5, "cycle": 0.01, "negotiation": 0.11, "late": 0.09, "queue": 0, "copy": 0, "wire": 0.23,
         "unmarked": 0.05, "after": 0.1, "step": 1.0}
    )  # fmt: skip
    assert sum(times.values()) - times["late"] - times["step"] == pytest.approx(times["step"])
    assert all(part.overlapped_s == 0 for part in parts.values())


def test_the_parts_add_up_where_another_rank_was_ready_first():
    exchange = spans(("t", "negotiation", 0.45, 0.52), ("t", "operation", 0.55, 0.9), ("t", "wire", 0.55, 0.9))
    parts = step_parts(STEP, [100.5, 100.4], exchange)
    assert (parts["negotiation"].time_s, parts["negotiation"].overlapped_s) == pytest.approx((0.07, 0.05))
    assert parts["cycle"].time_s == pytest.approx(0.03)  # the answer travels
    assert parts["late"].time_s == parts["late"].overlapped_s == pytest.approx(0.05)
    parts = [part for name, part in parts.items() if name not in ("late", "step")]
    assert sum(part.time_s - part.overlapped_s for part in parts) == pytest.approx(1.0)


def test_what_is_exchanged_while_rank_0_computes_overlaps():
    exchange = spans(
        ("a", "negotiation", 0.2, 0.25), ("a", "operation", 0.25, 0.45), ("a", "copy", 0.25, 0.27),
        ("a", "wire", 0.27, 0.45), ("b", "negotiation", 0.4, 0.55), ("b", "operation", 0.55, 0.8),
        ("b", "copy", 0.55, 0.56), ("b", "wire", 0.56, 0.8),
    )  # fmt: skip
    parts = step_parts(STEP, [100.5, 100.5], exchange)
    assert (parts["negotiation"].time_s, parts["negotiation"].overlapped_s) == pytest.approx((0.2, 0.15))
    assert (parts["wire"].time_s, parts["wire"].overlapped_s) == pytest.approx((0.42, 0.18))
    assert (parts["copy"].time_s, parts["copy"].overlapped_s) == pytest.approx((0.03, 0.02))
    assert [parts[name].time_s for name in ("cycle", "unmarked", "after")] == pytest.approx([0, 0, 0.2])


def test_tensors_that_share_a_state_count_once():
    both = spans(("a", "wire", 0.6, 0.8), ("b", "wire", 0.7, 0.9))
    assert step_parts(STEP, [100.5], both)["wire"].time_s == pytest.approx(0.3)


def test_a_barrier_that_another_rank_begins_early_is_not_in_the_step():
    early = spans(("t", "wire", 0.6, 0.8), ("barrier", "negotiation", 0.95, 1.1))
    assert step_parts(STEP, [100.5], early)["negotiation"].time_s == 0


def test_other_steps_and_no_exchange():
    parts = step_parts(STEP, [100.5], spans(("t", "wire", -0.5, -0.1), ("t", "wire", 1.2, 1.4)))
    assert parts["wire"].time_s == parts["cycle"].time_s == 0
    assert parts["after"].time_s == pytest.approx(0.5)


def test_intervals_on_the_clock():
    assert union([(3, 4), (0, 1), (1, 2)]) == [(0, 2), (3, 4)]
    assert without([(0, 10)], [(1, 2), (5, 11)]) == [(0, 1), (2, 5)]
    assert without([(0, 1), (2, 3)], [(0.5, 2.5)]) == [(0, 0.5), (2.5, 3)]
    assert within([(0, 2), (3, 6)], 1, 4) == 2


def test_only_timed_steps_count_each_on_the_clock_of_rank_0(tmp_path):
    parts = steps_of_rank_0(load(launch_with_timeline(tmp_path)))
    assert len(parts) == STEPS
    for step in parts:
        assert step["late"].time_s == pytest.approx(0.09, abs=1e-5)  # rank 1's clock is 5 s behind
        assert step["wire"].time_s == pytest.approx(0.23, abs=1e-5)
        assert step["queue"].time_s == 0


def test_where_a_gpu_computes_it_is_not_known_when_gradients_are_ready(tmp_path):
    launch = load(launch_with_timeline(tmp_path))
    for step in launch.ranks[1].steps:
        step.computed_at = None
    assert steps_of_rank_0(launch) == []
