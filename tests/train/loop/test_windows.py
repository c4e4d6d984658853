"""Windows of arms whose steps compute nothing. Those of test_arms.py compute."""

import itertools
from contextlib import nullcontext
from dataclasses import replace
from types import SimpleNamespace

import pytest

from tests.helpers.configs import arm, with_values
from tests.helpers.context import FirstOfTwo, make_context
from train.config.compose import load
from train.config.measure_config import LaunchPlan
from train.loop import Length, windows
from train.rank.quota_gate import QuotaGate

PREPARED = ["restore", "synchronized", "barrier"]


class Ranks(FirstOfTwo):
    """Rank 0 of two, which notes its barriers. `answer`: makes the value of rank 1 from its own."""

    def __init__(self, events, name="", answer=lambda value: value):
        super().__init__(answer)
        self._events, self._name = events, name

    def barrier(self):
        self._events.append(f"barrier{self._name}")


@pytest.fixture
def events(monkeypatch):
    """What a rank does, in its order. Each reading of the clock is a second later."""
    events, now = [], itertools.count(1000.0).__next__
    clock = SimpleNamespace(time=now, perf_counter=now)
    for module in ("windows", "timed_steps"):
        monkeypatch.setattr(f"train.loop.{module}.time", clock)
    monkeypatch.setattr("train.loop.timed_steps.synchronize_devices", lambda: None)
    monkeypatch.setattr(windows, "synchronize_devices", lambda: events.append("synchronized"))
    monkeypatch.setattr(windows.placement, "move", lambda cores: events.append(f"on {cores}"))
    monkeypatch.setattr(QuotaGate, "use_link", lambda gate, rate: events.append(f"link {rate}"))
    monkeypatch.setattr(
        windows.roofline, "measure", lambda context, group, arm, brief: events.append(("roofline", arm, brief))
    )
    return events


def runner(events, *arms, absent=(), losses=(1.0,), settle=0, exchanges=None, answer=lambda value: value, **settings):
    """A runner of these arms. absent: those that this rank has no part in. losses: of its steps, in turn."""
    plan = LaunchPlan(arms, join_in_turn=settings.pop("join_in_turn", False))
    config = with_values(load(["model=tiny", "nodes=2", *settings.pop("overrides", ())]), {"launch": plan})
    context = make_context(config, Ranks(events, answer=answer), **settings)
    values = itertools.cycle(losses)

    def local_arm(index):
        def step(images, labels):
            events.append(f"step {index}")
            return next(values), 1.0, 0.0

        def local_step(images, labels):
            events.append(f"local step {index}")
            return 1.0, 1.0, 0.0

        batches = itertools.repeat((None, None))
        return windows.LocalArm(Ranks(events, f" of {index}"), step, lambda: nullcontext(batches), settle, local_step)

    local = [None if index in absent else local_arm(index) for index in range(len(arms))]
    return windows.WindowRunner(context, local, lambda: events.append("restore"), exchanges or {})


def test_a_window_has_nothing_but_timed_steps_between_its_barriers_from_the_first_weights_on(events):
    window, finite = runner(events, arm(), arm(2)).run_window((1,), 3, Length(2))
    assert events == [*PREPARED, "step 1", "barrier", "step 1", "step 1", "barrier"]
    # The clock is read at the begin of the window, three times in each step, and at the end.
    assert (window.round, window.arm, window.window_s, window.step_times_s) == (3, 1, 7.0, [2.0, 2.0])
    assert window.compute_times_s == [0.0, 0.0]
    assert window.cores.own_s >= 0
    assert finite


@pytest.mark.parametrize(("settle", "untimed", "steps"), [(3, 1, 3), (0, 0, 0)])
def test_reading_ahead_settles_before_a_window(events, settle, untimed, steps):
    runner(events, arm(), settle=settle).run_window((0,), 0, Length(1, untimed))
    assert events == [*PREPARED, *["step 0"] * steps, "barrier", "step 0", "barrier"]


def test_a_gpu_does_not_know_when_it_has_computed_and_a_loss_that_is_no_number_is_reported(events):
    window, finite = runner(events, arm(), losses=(1.0, 1.0, float("inf")), overrides=["device=gpu"]).run_window(
        (0,), 0, Length(2)
    )
    assert (window.compute_times_s, finite) == ([], False)


def test_a_rank_without_part_in_an_arm_waits_at_its_barriers(events):
    windows_of_others = runner(events, arm(), arm(2), absent=[1], exchanges={1: None})
    assert windows_of_others.run_window((1,), 0, Length(2)) == (None, True)
    assert windows_of_others.exchange(1, 0) is None
    assert events == ["barrier"] * 6
    windows_of_others.measure_roofline(1, False)
    assert events == ["barrier"] * 8
    assert windows_of_others.last_step_s((1,), 2) == 0.0


def test_rank_groups_at_once_measure_on_the_cores_of_each_and_wait_for_their_own(events):
    at_once = runner(events, arm(), arm(rank_group=1), absent=[1], core_sets=[[0], [1]])
    window, _ = at_once.run_window((0, 1), 0, Length(1))
    part = [*PREPARED, "step 0", "barrier", "barrier of 0", "step 0", "barrier of 0", "barrier"]
    assert events == ["on [0]", *part, "on [1]", *part]
    assert (window.arm, window.step_times_s, window.window_s) == (0, [2.0, 2.0], 8.0)


def test_an_exchange_is_made_twice_by_itself(events):
    window = runner(events, arm(2), exchanges={0: lambda: events.append("exchange")}).exchange(0, 4)
    assert events == [*PREPARED, "barrier", *["exchange", "synchronized"] * 2, "barrier"]
    assert (window.round, window.arm, window.step_times_s, window.window_s) == (4, 0, [1.0, 1.0], 5.0)


def test_the_time_of_a_step_is_that_of_the_slowest_rank_and_its_step_is_then_traced(events):
    slower = runner(events, arm(), answer=lambda value: value + 7.0 if isinstance(value, float) else value)
    assert slower.is_untraced((0,))
    assert slower.last_step_s((0,), 2) == 2.0 + 7.0
    assert events == [*PREPARED, "step 0", "step 0"]
    assert not slower.is_untraced((0,))
    assert runner(events, arm(), absent=[0], answer=lambda value: True).is_untraced((0,))


@pytest.mark.parametrize(
    ("join_in_turn", "traced"),
    [
        (False, ["local step 0"]),  # that of the first arm's batch
        (True, ["local step 0", "local step 1"]),  # and of an arm without exchange that shares its step with another
    ],
)
def test_all_ranks_trace_at_once_without_exchange(events, join_in_turn, traced):
    arms = arm(2), arm(batch_per_rank=4), arm(2, batch_per_rank=4), arm(batch_per_rank=8)
    tracing = runner(events, *arms, join_in_turn=join_in_turn)
    tracing.arms[0] = replace(tracing.arms[0], step=tracing.arms[0].local_step)  # as without an exchange
    tracing.trace()
    assert events == [*traced, "barrier"]
    assert [windows.is_exchanged(each) for each in arms] == [True, False, True, False]
    assert [tracing.is_untraced((index,)) for index in (0, 3)] == [False, True]


def test_the_links_get_the_rate_of_an_arm_once_they_are_limited(events):
    rates = runner(events, arm(2), arm(2, link_mbit_per_s=100.0))
    rates.measure_roofline(1, True)
    rates.limited = True
    rates.measure_roofline(1, False)
    roofline = ["barrier", ("roofline", 1, True), "barrier"]
    assert events == [*roofline, "link 100.0", "barrier", ("roofline", 1, False), "barrier"]
    events.clear()
    same = runner(events, arm(2), arm(2))
    same.limited = True
    same.measure_roofline(0, True)
    assert events == ["barrier", ("roofline", 0, True), "barrier"]  # all have the same rate
