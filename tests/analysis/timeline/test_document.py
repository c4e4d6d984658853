from pathlib import Path

import pytest

from analysis.timeline import split, text
from tests.helpers.timelines import STEPS, launch_with_timeline, load


@pytest.fixture
def launch(tmp_path):
    return load(launch_with_timeline(tmp_path))


def as_json(launch):
    return text.as_json(launch, split.steps_of_rank_0(launch), Path("trace.json"))


def test_the_parts_that_there_are_have_their_medians_in_seconds(launch):
    timeline = as_json(launch)
    assert (timeline.model, timeline.hosts, timeline.timed_steps) == ("resnet50", 2, STEPS)
    assert {name: number.value for name, number in timeline.parts_s.items()} == pytest.approx(
        {"computing": 0.5, "cycle": 0.01, "negotiation": 0.11, "late": 0.09, "wire": 0.23, "unmarked": 0.05,
         "after": 0.1, "step": 1.0}, abs=1e-5,
    )  # fmt: skip
    assert timeline.parts_s["wire"].n == STEPS
    assert set(timeline.overlapped_s) == {"negotiation", "late", "wire", "unmarked"}
    assert {number.value for number in timeline.overlapped_s.values()} == {0.0}


def test_each_rank_says_how_long_after_the_first_one_it_was_ready(launch):
    first, second = as_json(launch).ranks
    assert (first.computing_s.value, first.ready_after_first_s.value) == pytest.approx((0.5, 0.0))
    assert (second.computing_s.value, second.ready_after_first_s.value) == pytest.approx((0.6, 0.1))
    assert (first.clock_error_s, second.clock_error_s) == (0.0, 0.0002)


def test_where_a_gpu_computes_nothing_is_made_up(launch):
    for step in launch.ranks[1].steps:
        step.computed_at = None
    timeline = as_json(launch)
    assert timeline.parts_s == timeline.overlapped_s == {}
    assert [rank.computing_s for rank in timeline.ranks] == [None, None]
