import json

import pytest

from analysis import TableError
from analysis.timeline import launch
from tests.helpers.timelines import begin_s, horovod_events


def test_states_are_named_timed_and_separated():
    negotiated, wire, operation = (
        span for span in launch.horovod_timeline(horovod_events(1)).spans if span.tensor == "gradients"
    )
    assert [span.kind for span in (negotiated, wire, operation)] == ["negotiation", "wire", "operation"]
    assert (wire.tensor, wire.name) == ("gradients", "GLOO_ALLREDUCE")
    assert (wire.begin_s, wire.end_s) == pytest.approx((begin_s(0) + 0.65, begin_s(0) + 0.88), abs=1e-6)


def test_the_first_time_it_says_when_each_rank_was_ready():
    ready = launch.horovod_timeline(horovod_events(3)).ready
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
    assert [span.kind for span in launch.horovod_timeline(events).spans[1:]] == ["negotiation", kind, "operation"]


def test_what_had_not_ended_is_left_out():
    whole = horovod_events(2)
    assert len(launch.horovod_timeline(whole[:-1]).spans) == 6
    assert len(launch.horovod_timeline(whole).spans) == 7


@pytest.mark.parametrize("text", ["", json.dumps(horovod_events(1))[:-20], "[]", '[{"ph": "E", "ts": 1, "pid": 1}]'])
def test_a_file_that_is_not_whole_is_named(tmp_path, text):
    path = tmp_path / "horovod-timeline.json"
    path.write_text(text)
    with pytest.raises(TableError, match=r"horovod-timeline.json: not a whole timeline of Horovod .*FORCE=1"):
        launch.read_horovod(path)
