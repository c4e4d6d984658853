import pytest

from tests.helpers.context import make_context
from tests.helpers.lazy import Lazy
from tests.helpers.learners import EndlessData, losses
from train.config.compose import load
from train.loop import NotFinite
from train.rank.quota_gate import QuotaGate

pytestmark = pytest.mark.slow

roofline, timed_steps = Lazy("train.loop.roofline"), Lazy("train.loop.timed_steps")


@pytest.fixture(autouse=True)
def no_roofline(monkeypatch):
    """Skip the roofline, which multiplies matrices for half a second."""
    monkeypatch.setattr("train.loop.roofline.measure", lambda context, among: None)


def context(warm_up, timed, **more):
    return make_context(load([f"measure.warm_up_steps={warm_up}", f"measure.timed_steps={timed}"]), **more)


def test_the_first_step_and_the_warm_up_are_not_timed():
    rank = context(2, 2)
    timed_steps.time_steps(rank, losses(9.0, 8.0, 7.0, 6.0, 5.0), EndlessData())
    part = rank.part.part
    assert part.losses == [6.0, 5.0]
    assert len(part.warm_up_step_times_s) == 2
    assert len(part.step_times_s) == 2
    # The fake step reports as the end of its computation the time of its call, which is within the step.
    for computed_s, step_s in zip(part.compute_times_s, part.step_times_s, strict=True):
        assert 0 < computed_s < step_s
    # One second each time that the clock is read: `timed` is announced in the warm-up.
    assert rank.clock.stop() == {"start": 1.0, "first_step": 1.0, "warm_up": 2.0, "timed": 1.0, "evaluate": 1.0}


def test_a_step_in_which_the_clock_is_set_computes_for_no_longer_than_it_lasts():
    steps = timed_steps.Steps([], [], [0.5, 0.5, 0.5], [10.0, 11.0, 3612.0], [10.2, 3611.1, 12.3])
    assert steps.compute_times_s == pytest.approx([0.2, 0.5, 0.0])


def test_quotas_hold_from_the_warm_up_on_and_nothing_is_recorded_between_the_barriers(monkeypatch):
    rank, events, step = context(1, 2), [], losses(*[1.0] * 4)
    monkeypatch.setattr(QuotaGate, "wait_for_quota", lambda gate: events.append("quota"))
    monkeypatch.setattr(QuotaGate, "release", lambda gate: events.append("released"))
    monkeypatch.setattr(rank.part, "add", lambda **fields: events.append(sorted(fields)))
    monkeypatch.setattr(rank.distribution, "barrier", lambda: events.append("barrier"), raising=False)

    def recorded_step(images, labels):
        events.append("step")
        return step(images, labels)

    timed_steps.time_steps(rank, recorded_step, EndlessData())
    first = events.index("barrier")
    assert events[first - 1] == ["phase", "phases_s"]  # `timed` is announced
    assert events[first:][:4] == ["barrier", "step", "step", "barrier"]
    acts = [event for event in events if event in ("quota", "step", "released")]
    assert acts == ["step", "quota", "step", "step", "step", "released"]


NAN = float("nan")


@pytest.mark.parametrize(
    ("values", "step", "recorded"),
    [((NAN, 1.0, 1.0), 1, []), ((1.0, NAN, 1.0), 2, []), ((1.0, 1.0, 3.0, 2.0, NAN), 5, [3.0, 2.0])],
)
def test_a_loss_that_is_no_number_is_named_with_its_step_and_those_before_are_kept(values, step, recorded):
    rank = context(1, 3)
    with pytest.raises(NotFinite, match=f"not finite at step {step}") as raised:
        timed_steps.time_steps(rank, losses(*values), EndlessData())
    assert raised.value.step == step
    assert rank.part.part.losses == recorded
