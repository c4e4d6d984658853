import itertools
from types import SimpleNamespace

import pytest

from tests.helpers.context import make_context
from tests.helpers.learners import EndlessData, losses
from train.config.compose import load
from train.loop import NotFinite, timed_steps
from train.rank.quota_gate import QuotaGate

NAN = float("nan")


@pytest.fixture
def events(monkeypatch):
    """What happens beside the phases, in its order."""
    events = []
    monkeypatch.setattr("train.loop.roofline.measure", lambda context, among: events.append("roofline"))
    monkeypatch.setattr(QuotaGate, "wait_for_quota", lambda gate: events.append("quota"))
    monkeypatch.setattr(QuotaGate, "release", lambda gate: events.append("released"))
    return events


@pytest.fixture
def now(monkeypatch, events):
    """A clock that advances by one second at each reading, also that of a step."""
    now = itertools.count(1000.0).__next__
    monkeypatch.setattr(timed_steps, "time", SimpleNamespace(time=now, perf_counter=now))
    monkeypatch.setattr(timed_steps, "synchronize_devices", now)
    return now


def context(warm_up, timed, *more):
    return make_context(load([f"measure.warm_up_steps={warm_up}", f"measure.timed_steps={timed}", *more]))


@pytest.mark.parametrize(("device", "compute_times_s"), [("cpu", [1.0, 1.0]), ("gpu", [])])
def test_the_first_step_and_the_warm_up_are_not_timed(now, device, compute_times_s):
    rank = context(2, 2, f"device={device}")
    steps = timed_steps.time_steps(rank, losses(9.0, 8.0, 7.0, 6.0, 5.0, now=now), EndlessData())
    part = rank.part.part
    assert part.losses == [6.0, 5.0]
    # A step reads the clock at its begin, for its begin in the epoch, for its gradients, of the devices, at its end.
    assert (part.warm_up_step_times_s, part.step_times_s, part.compute_times_s) == (
        [4.0] * 2,
        [4.0] * 2,
        compute_times_s,
    )
    assert {phase: len(done.times_s) for phase, done in steps.items()} == {"first_step": 1, "warm_up": 2, "timed": 2}
    # One second each time that this clock is read: `timed` is announced in the warm-up.
    assert rank.clock.stop() == {"start": 1.0, "first_step": 1.0, "warm_up": 2.0, "timed": 1.0, "evaluate": 1.0}
    batches = timed_steps.endless(EndlessData())
    window = timed_steps.time_window(rank, rank.distribution, losses(1.0, 1.0, now=now), batches, 2)
    assert window.window_s == 11.0  # the clock is read five times in each step, and at the end


def test_batches_are_those_of_the_first_epoch_and_of_all_that_follow():
    batches = timed_steps.endless(SimpleNamespace(training=lambda epoch: (f"{epoch}a", f"{epoch}b")))
    assert [*itertools.islice(batches, 3)] == ["0a", "0b", "1a"]


def test_a_step_in_which_the_clock_is_set_computes_for_no_longer_than_it_lasts():
    steps = timed_steps.Steps([], [], [0.5, 0.5, 0.5], [10.0, 11.0, 3612.0], [10.2, 3611.1, 12.3])
    assert steps.compute_times_s == pytest.approx([0.2, 0.5, 0.0])


def test_quotas_hold_from_the_warm_up_on_and_nothing_is_recorded_between_the_barriers(now, events, monkeypatch):
    rank, step = context(1, 2), losses(*[1.0] * 4)
    monkeypatch.setattr(rank.part, "add", lambda **fields: events.append(sorted(fields)))
    monkeypatch.setattr(rank.distribution, "barrier", lambda: events.append("barrier"), raising=False)

    def recorded_step(images, labels):
        events.append("step")
        return step(images, labels)

    timed_steps.time_steps(rank, recorded_step, EndlessData())
    first = events.index("barrier")
    assert events[first - 1] == ["phase", "phases_s"]  # `timed` is announced
    assert events[first:][:4] == ["barrier", "step", "step", "barrier"]
    acts = [event for event in events if isinstance(event, str) and event != "barrier"]
    assert acts == ["step", "quota", "step", "step", "step", "roofline", "released"]


@pytest.mark.parametrize(
    ("values", "step", "recorded"),
    [((NAN, 1.0, 1.0), 1, []), ((1.0, NAN, 1.0), 2, []), ((1.0, 1.0, 3.0, 2.0, NAN), 5, [3.0, 2.0])],
)
def test_a_loss_that_is_no_number_is_named_with_its_step_and_those_before_are_kept(now, values, step, recorded):
    rank = context(1, 3)
    with pytest.raises(NotFinite, match=f"not finite at step {step}") as raised:
        timed_steps.time_steps(rank, losses(*values), EndlessData())
    assert raised.value.step == step
    assert rank.part.part.losses == recorded
