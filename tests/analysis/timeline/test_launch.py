import json

import pytest

from analysis import TableError
from analysis.study import Study
from analysis.timeline import launch
from analysis.timeline.launch import find_launches
from tests.helpers.own_records import make_record, save
from tests.helpers.timelines import BEGAN_S, begin_s, horovod_events, launch_with_timeline, load


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
