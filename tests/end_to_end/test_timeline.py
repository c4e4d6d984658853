"""A real launch with a timeline, which joins Horovod's timeline, the steps of the ranks and TensorFlow's operations."""

import json
from pathlib import Path

import pytest

from analysis.study import Study
from analysis.timeline import exchange_spans, find_launches, load_launch, steps_of_rank_0, timed_steps
from tests.helpers.chrome_trace import check
from tests.helpers.kit import LAUNCH, analyse, records, succeed

pytestmark = pytest.mark.end_to_end

STEPS = 6


def test_the_steps_of_all_ranks_and_the_exchange_are_on_one_clock(tmp_path: Path):
    overrides = ("experiment=timeline", "nodes=2", "model=tiny", "batch_per_rank=64", f"measure.timed_steps={STEPS}")
    command = (*LAUNCH, *overrides, "tracking=none", f"results={tmp_path / 'results'}")
    output = succeed(*command, variables={"HOROVOD_TIMELINE": str(tmp_path / "mine.json")})
    assert "HOROVOD_TIMELINE: set in your environment, but the configuration decides" in output
    assert not (tmp_path / "mine.json").exists()
    [record] = records(tmp_path / "results")
    assert "images_per_s" not in record.summary

    folders = ("--results", str(tmp_path / "results"), "--out", str(tmp_path / "figures"))
    analyse("timeline", *folders)
    [file] = (tmp_path / "figures").iterdir()
    events = check(json.loads(file.read_text()))
    assert {event["args"]["name"].split(" on ")[0] for event in events if event["name"] == "process_name"} == {
        "rank 0", "rank 1",
    }  # fmt: skip
    assert {event["pid"] for event in events if "MatMul" in event["name"] or "Conv" in event["name"]} == {0, 1}

    [path] = find_launches(Study(tmp_path / "results").records)
    launch = load_launch(path, record)
    for rank in launch.ranks:
        assert [step.phase for step in rank.steps].count("timed") == STEPS
        begin_s, end_s = next((begin_s, end_s) for name, begin_s, end_s in rank.phases if name == "timed")
        for step in rank.steps:
            assert step.begun_at < step.computed_at < step.ended_at
            inside = begin_s <= step.begun_at and step.ended_at <= end_s
            assert inside == (step.phase == "timed")
    steps = steps_of_rank_0(launch)
    assert len(steps) == STEPS
    for step, parts in zip(timed_steps(launch.ranks[0]), steps, strict=True):
        exchange = exchange_spans(step, launch.horovod.spans)
        [negotiation] = [span for span in exchange if span.kind == "negotiation"]
        assert negotiation.name == "NEGOTIATE_ALLREDUCE"
        # If other processes delay rank 0, rank 1 may be ready before rank 0 begins the step.
        in_step_s = negotiation.end_s - max(negotiation.begin_s, step.begun_at)
        assert parts["negotiation"].time_s == pytest.approx(in_step_s, abs=1e-6)
    # In a single step it may be 0 us: both ranks are ready in the same cycle.
    assert any(parts["negotiation"].time_s > 0 for parts in steps)
    for parts in steps:
        # There is one flat tensor. If rank 1 is ready first, negotiation begins while rank 0 still computes.
        total_s = sum(part.time_s - part.overlapped_s for name, part in parts.items() if name not in ("late", "step"))
        assert total_s == pytest.approx(parts["step"].time_s, abs=1e-6)
        assert parts["wire"].time_s > 0
        assert parts["queue"].time_s == parts["copy"].time_s == 0
