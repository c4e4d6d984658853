import json
from dataclasses import replace
from pathlib import Path

import pytest

from analysis.timeline import timeline_text
from tests.helpers.chrome_trace import check
from tests.helpers.timelines import STEPS, begin_s, launch_with_timeline, load


@pytest.fixture
def launch(tmp_path):
    return load(launch_with_timeline(tmp_path))


def answer(launch):
    return timeline_text.answer(launch, Path("trace.json"))


def report(launch) -> str:
    return timeline_text.report(answer(launch))


def cells(table: str, first: str) -> list[str]:
    """Return the cells of the row that begins with `first`."""
    [line] = [line for line in table.splitlines() if line.strip().startswith(first)]
    return [cell.strip() for cell in line.strip().removeprefix(first).split("  ") if cell]


def test_the_parts_have_intervals_and_say_where_there_is_none(launch, tmp_path):
    lines = report(launch)
    title = "== ResNet50, 2 ranks on 2 hosts, batch 8, flat gradients, gloo, cycle 20 ms: 8 timed steps"
    assert lines.startswith(title)
    assert "230 (230 to 230)" in cells(lines, "wire ")
    assert cells(lines, "queue") == cells(lines, "copy") == ["none here"]
    assert {"600 (600 to 600)", "100 (100 to 100)"} <= {*cells(lines, "1 on host1")}
    assert "Of 280 (280 to 280) ms of copies and wire a step, rank 0 computed during 0 (0 to 0) ms: 0 %." in lines
    assert "Gloo has no queue" in lines
    assert "One flat tensor needs no fusion buffer" in lines
    assert "The clocks of the hosts are known to ± 0.2 ms" in lines
    one_host = report(load(launch_with_timeline(tmp_path / "one", separate_hosts=False)))
    assert "All ranks are on one host, and have one clock." in one_host


def test_a_clock_that_is_not_known_and_other_gradients_are_reported(launch):
    launch = replace(launch, ranks=[launch.ranks[0], replace(launch.ranks[1], clock_error_s=None)])
    launch.run.config["distribution"] |= {"gradients": "separate", "controller": "mpi"}
    text = " ".join(report(launch).split())
    assert "How far the clocks of ranks 1 are from rank 0's could not be measured" in text
    assert "flat tensor" not in text
    assert "MPI on CPUs has no queue" in text


def test_the_parts_that_there_are_have_their_medians_in_seconds(launch):
    timeline = answer(launch)
    assert (timeline.model, timeline.hosts, timeline.timed_steps) == ("resnet50", 2, STEPS)
    times = {name: number.value for name, number in timeline.parts_s.items()}
    expected = {"computing": 0.5, "cycle": 0.01, "negotiation": 0.11, "late": 0.09, "wire": 0.23, "unmarked": 0.05}
    assert times == pytest.approx(expected | {"after": 0.1, "step": 1.0}, abs=1e-5)  # rank 1's clock is 5 s behind
    assert timeline.parts_s["wire"].n == STEPS
    assert set(timeline.overlapped_s) == {"negotiation", "late", "wire", "unmarked"}
    assert {number.value for number in timeline.overlapped_s.values()} == {0.0}
    first, second = timeline.ranks
    assert (first.computing_s.value, first.ready_after_first_s.value) == pytest.approx((0.5, 0.0))
    assert (second.computing_s.value, second.ready_after_first_s.value) == pytest.approx((0.6, 0.1))
    assert (first.clock_error_s, second.clock_error_s) == (0.0, 0.0002)


def test_where_a_gpu_computes_nothing_is_made_up(launch):
    for step in launch.ranks[1].steps:
        step.computed_at = None
    timeline = answer(launch)
    assert timeline.parts_s == timeline.overlapped_s == {}
    assert [rank.computing_s for rank in timeline.ranks] == [None, None]


@pytest.fixture
def events(tmp_path):
    document = timeline_text.trace(load(launch_with_timeline(tmp_path)))
    return check(json.loads(json.dumps(document)))


def lane(events, pid: int, name: str) -> list[dict]:
    """Return the events of the thread of this name in a process."""
    threads = [event for event in events if event["name"] == "thread_name" and event["pid"] == pid]
    [tid] = [event["tid"] for event in threads if event["args"]["name"] == name]
    return [event for event in events if event["ph"] != "M" and (event["pid"], event["tid"]) == (pid, tid)]


def test_each_rank_is_a_process_with_its_phases_and_steps_in_microseconds_from_the_launch_on(events):
    processes = {event["args"]["name"] for event in events if event["name"] == "process_name"}
    assert processes == {"rank 0 on host0", "rank 1 on host1"}
    # Perfetto would draw two threads of a rank with the number of a process as one.
    threads = {event["tid"] for event in events if event["name"] == "thread_name"}
    assert threads.isdisjoint({event["pid"] for event in events})
    assert 0 not in threads
    for rank in (0, 1):
        phases = [(phase["name"], phase["ts"], phase["dur"]) for phase in lane(events, rank, "phases")[:2]]
        assert phases == [("start", 0, 500_000), ("import", 500_000, 3_000_000)]
        steps = lane(events, rank, "steps")
        names = [step["name"].partition(" (")[2] for step in steps[:4]]
        assert names == ["first step)", "warm up)", "warm up)", "timed)"]
        assert steps[3]["name"].startswith("step 4")
        assert steps[0]["ts"] == pytest.approx(1e6 * (begin_s(0) - 999.5), abs=1)
    computing, rest, *_ = lane(events, 1, "in a step")
    assert (computing["name"], computing["dur"]) == ("computing", pytest.approx(600_000, abs=1))
    assert rest["ts"] + rest["dur"] == pytest.approx(1e6 * (begin_s(1) - 999.5), abs=1)


def test_rank_0_has_a_thread_for_each_tensor_with_what_it_contains(events):
    result = lane(events, 0, "Horovod: gradients")
    names = ["NEGOTIATE_ALLREDUCE", "rank 0 is ready", "rank 1 is ready", "ALLREDUCE", "GLOO_ALLREDUCE"]
    assert [event["name"] for event in result[:5]] == names
    begins_s = [event["ts"] / 1e6 - (begin_s(0) - 999.5) for event in result[:5]]
    assert begins_s == pytest.approx([0.51, 0.51, 0.6, 0.62, 0.65], abs=1e-6)


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
    assert sum(name.startswith("Horovod: ") for name in threads) == 2  # the other thread is for the gradients
