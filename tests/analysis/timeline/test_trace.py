import json

import pytest

from analysis.timeline import trace
from tests.helpers.chrome_trace import check
from tests.helpers.timelines import begin_s, launch_with_timeline, load


@pytest.fixture
def events(tmp_path):
    document = trace.document(load(launch_with_timeline(tmp_path)))
    return check(json.loads(json.dumps(document)))


def lane(events, pid: int, name: str) -> list[dict]:
    """The events of a thread of a process, by its name."""
    named = [event for event in events if event["name"] == "thread_name" and event["pid"] == pid]
    [tid] = [event["tid"] for event in named if event["args"]["name"] == name]
    return [event for event in events if event["ph"] != "M" and (event["pid"], event["tid"]) == (pid, tid)]


def test_each_rank_is_a_process_with_its_phases_and_steps_in_microseconds_from_the_launch_on(events):
    processes = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert processes == {"rank 0 on host0", "rank 1 on host1"}
    for rank in (0, 1):
        start, imported, *_ = lane(events, rank, "phases")
        assert (start["name"], start["ts"], start["dur"]) == ("start", 0, 500_000)
        assert (imported["name"], imported["ts"], imported["dur"]) == ("import", 500_000, 3_000_000)
        steps = lane(events, rank, "steps")
        assert [step["name"] for step in steps[:4]] == [
            "step 1 (first step)", "step 2 (warm up)", "step 3 (warm up)", "step 4 (timed)",
        ]  # fmt: skip
        assert steps[0]["ts"] == pytest.approx(1e6 * (begin_s(0) - 999.5), abs=1)
    computing, rest, *_ = lane(events, 1, "in a step")
    assert (computing["name"], computing["dur"]) == ("computing", pytest.approx(600_000, abs=1))
    assert rest["ts"] + rest["dur"] == pytest.approx(1e6 * (begin_s(1) - 999.5), abs=1)


def test_no_thread_has_the_number_of_a_process(events):
    # Perfetto would draw two threads of such a rank as one.
    threads = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert threads.isdisjoint({event["pid"] for event in events})
    assert 0 not in threads


def test_rank_0_has_a_thread_for_each_tensor_with_what_it_contains(events):
    result = lane(events, 0, "Horovod: gradients")
    assert [event["name"] for event in result[:5]] == [
        "NEGOTIATE_ALLREDUCE", "rank 0 is ready", "rank 1 is ready", "ALLREDUCE", "GLOO_ALLREDUCE",
    ]  # fmt: skip
    assert result[3]["ts"] == pytest.approx(1e6 * (begin_s(0) + 0.62 - 999.5), abs=1)


def test_operations_of_tensorflow_have_the_threads_that_ran_them(events):
    for rank in (0, 1):
        [operation] = lane(events, rank, "TensorFlow: worker")
        assert (operation["name"], operation["dur"]) == ("Conv2D", 300)
        assert operation["ts"] == pytest.approx(1e6 * (begin_s(12) - 999.5) + 10, abs=1)


def test_what_is_exchanged_in_no_step_shares_a_thread(events):
    [broadcast] = lane(events, 0, "Horovod: all other tensors")
    assert (broadcast["name"], broadcast["dur"]) == ("BROADCAST", pytest.approx(500_000, abs=1))
    assert broadcast["ts"] == pytest.approx(1e6 * (999.9 + 2.0 - 999.5), abs=1)
    threads = [event["args"]["name"] for event in events if event["name"] == "thread_name" and event["pid"] == 0]
    assert [name for name in threads if name.startswith("Horovod: ")] == [
        "Horovod: gradients", "Horovod: all other tensors",
    ]  # fmt: skip
