from dataclasses import replace

import msgspec
import pytest

from tests.helpers.configs import changed
from tests.helpers.context import make_context
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.schema import LaunchPlan, RankGroup, RoundArm
from train.distribution import Single
from train.rank.phases import PhaseClock

pytestmark = pytest.mark.slow

ONE = RoundArm("one", nodes=1, ranks=1, batch_per_rank=2, allreduce=True, role="base")
AT_ONCE = {"launch": LaunchPlan(rank_groups_at_once=True)}
TWO = RoundArm("two", nodes=2, ranks=2, batch_per_rank=2, allreduce=True)


class FirstOfTwo(Single):
    """Rank 0 of two ranks; the other one takes part in the second arm alone, and is as fast."""

    size = 2

    def gather(self, value, kind):
        return [value, value]


@pytest.fixture
def rooflines(monkeypatch):
    """The arms whose rooflines are measured: for half a second each, which these tests do without."""
    from train.loop import roofline

    arms = []
    monkeypatch.setattr(roofline, "measure", lambda context, among, arm: arms.append(arm))
    return arms


@pytest.fixture
def measured(rooflines):
    """What rank 0 records, for a budget in ticks of the context's clock."""
    from train.datasets import DATASETS
    from train.loop.learner import Learner
    from train.loop.rounds import measure_rounds
    from train.models import build

    def measure(*overrides: str, arms=(ONE, TWO), groups=(), core_sets=()):
        config = load(["model=tiny", "nodes=2", "batch_per_rank=2", "measure.precision_fraction=0.9", *overrides])
        plan = LaunchPlan(tuple(arms), tuple(groups), rank_groups_at_once=bool(groups))
        config = changed(config, {"launch": plan})
        context = make_context(config, FirstOfTwo(), core_sets=core_sets)
        data = DATASETS[config.dataset.name](config, 0)
        model = build("tiny", config.model.image_size, config.dataset.channels, config.dataset.classes)
        learner = Learner(config, context.distribution, data, model)
        before = [variable.numpy().copy() for variable in learner.variables()]
        measure_rounds(context, learner)
        return context, before, learner

    return measure


def test_a_round_has_a_window_of_every_arm_in_a_new_order(measured):
    context, _, _ = measured("measure.budget_s=60")
    windows = context.part.part.windows
    rounds = max(window.round for window in windows) + 1
    orders = [[w.arm for w in windows if w.round == number] for number in range(rounds)]
    assert all(sorted(order) == [0, 1] for order in orders)
    assert {tuple(order) for order in orders} == {(0, 1), (1, 0)}
    for window in windows:
        assert 0 < sum(window.step_times_s) <= window.window_s
        assert len(window.compute_times_s) == len(window.step_times_s) >= 2


def test_a_split_measures_the_exchange_of_the_points_by_itself_in_every_round(measured):
    alone = msgspec.structs.replace(TWO, name="control", allreduce=False)
    context, _, _ = measured("measure.budget_s=0.001", "measure.split=true", arms=(ONE, TWO, alone))
    [exchange] = context.part.part.exchanges  # one rank exchanges nothing, nor does the control
    assert (exchange.round, exchange.arm) == (0, 1)
    assert len(exchange.step_times_s) == 2
    assert 0 < sum(exchange.step_times_s) <= exchange.window_s
    assert measured("measure.budget_s=0.001")[0].part.part.exchanges == []


def test_the_roofline_of_each_number_of_ranks_are_measured_before_the_rounds_and_after_them(measured, rooflines):
    alone = msgspec.structs.replace(TWO, name="control", allreduce=False)
    measured("measure.budget_s=0.001", arms=(ONE, TWO, alone))
    assert rooflines == [0, 1, 0, 1]


def test_arms_that_read_go_on_in_their_epochs_and_read_nothing_between_windows(measured, monkeypatch):
    from train.input.reader import Reader

    begun, ended = [], []
    training = Reader.training

    def noted(reader, epoch, used=0):
        begun.append(epoch)
        try:
            yield from training(reader, epoch, used)
        finally:
            ended.append(epoch)

    monkeypatch.setattr(Reader, "training", noted)
    arms = [msgspec.structs.replace(ONE, reads=True), msgspec.structs.replace(ONE, name="in-memory")]
    context, _, _ = measured(
        "dataset=digits", "nodes=1", "measure.split=true", "measure.budget_s=0.001",
        "dataset.training_samples=4000", "measure.precision_fraction=0.9", arms=arms,
    )  # fmt: skip
    assert {(window.round, window.arm) for window in context.part.part.windows} == {(0, 0), (0, 1)}
    assert begun == ended
    assert begun[0] == 0  # the one batch that is kept in memory
    assert begun[1:] == sorted(begun[1:])
    assert len(begun[1:]) == len(set(begun[1:])) >= 3  # traced, warmed up, one round, the last step


def test_ranks_leave_their_first_steps_together(measured, monkeypatch):
    events, enter = [], PhaseClock.enter

    def entered(clock, phase, **more):
        events.append(phase)
        enter(clock, phase, **more)

    monkeypatch.setattr(PhaseClock, "enter", entered)
    monkeypatch.setattr(FirstOfTwo, "barrier", lambda ranks: events.append("barrier"))
    measured("measure.budget_s=0.001")
    assert events[:3] == ["first_step", "barrier", "warm_up"]


def test_windows_tell_what_the_cores_did(measured):
    context, _, _ = measured("measure.budget_s=0.001")
    for window in context.part.part.windows:
        assert window.cores.wall_s >= window.window_s
        assert window.cores.own_s > 0


def test_the_budget_ends_the_rounds(measured):
    context, _, _ = measured("measure.budget_s=0.001")
    assert {window.round for window in context.part.part.windows} == {0}


def test_the_order_is_drawn_from_the_seed_and_the_launch(measured):
    def order(seed):
        context, _, _ = measured(seed, "measure.budget_s=16")
        return [window.arm for window in context.part.part.windows]

    assert order("seed=1") == order("seed=1") != order("seed=2")


def test_every_window_starts_from_the_same_weights(measured, monkeypatch):
    import numpy as np

    from train.loop import windows

    begun = []
    restoring = windows.restoring

    def noting(variables):
        restore = restoring(variables)

        def restore_and_note():
            restore()
            begun.append([variable.numpy().copy() for variable in variables])

        return restore_and_note

    monkeypatch.setattr(windows, "restoring", noting)
    _, before, learner = measured("measure.budget_s=0.001")
    assert len(begun) == 2 * 2 + 2 + 1  # warm-up, one round, and the step that all make at the end
    for values in begun:
        for value, first in zip(values, before, strict=True):
            np.testing.assert_array_equal(value, first)
    moved = [not np.array_equal(v.numpy(), first) for v, first in zip(learner.variables(), before, strict=True)]
    assert any(moved)


def test_rank_groups_at_once_share_a_window_and_measure_once_on_the_cores_of_each(measured, monkeypatch):
    from train.loop import windows

    moved = []
    monkeypatch.setattr(windows.placement, "move", moved.append)
    arms = [msgspec.structs.replace(ONE, name="without"), msgspec.structs.replace(ONE, name="with", rank_group=1)]
    groups = [RankGroup({}, 0, 1), RankGroup({}, 1, 1)]
    context, _, _ = measured("measure.budget_s=0.001", arms=arms, groups=groups, core_sets=[[0], [1]])
    [window] = context.part.part.windows
    assert (window.round, window.arm) == (0, 0)  # this process belongs to the first rank group
    assert moved == [[0], [1]]
    assert len(window.step_times_s) >= 2 * 2
    assert sum(window.step_times_s) <= window.window_s


def test_batches_for_which_the_budget_is_too_short_are_left_out_and_named(measured, monkeypatch):
    from train.loop import windows

    # Of batch 1 and of batch 2 too.
    monkeypatch.setattr(windows.WindowRunner, "last_step_s", lambda runner, arms, steps: 0.9)
    arms = [msgspec.structs.replace(ONE, name=f"batch{batch}", batch_per_rank=batch) for batch in (1, 2, 4, 64)]
    # Windows of 2 steps: 1.8 s + 1.8 s; batch 4 is expected to take a step of 1.8 s: 5.4 s a round, 32 s for six.
    # It takes 2 steps of 0.9 s. Batch 64 would then take a step of 14.4 s: 20 s a round, 119 s for six.
    context, _, _ = measured("measure.budget_s=75", "measure.repeats=1", arms=arms)
    assert context.part.part.arms_left_out == {"batch64": "a round with it would take 20 s; a launch has 75 s"}
    assert {window.arm for window in context.part.part.windows} == {0, 1, 2}
    control = msgspec.structs.replace(ONE, name="control", allreduce=False)  # of the same batch: always measured
    context, _, _ = measured("measure.budget_s=0.001", arms=[ONE, ONE, control])
    assert context.part.part.arms_left_out == {}


@pytest.mark.parametrize(
    ("changes", "step_s", "timed", "untimed"),
    [
        ({}, 0.125, 4, 1),  # 4 x 5 ms / 0.05 = 0.4 s
        ({}, 0.39, 2, 1),
        ({}, 0.41, 2, 0),  # long steps need no untimed one before them
        ({}, 0.99, 2, 0),
        ({}, 1.0, 1, 0),
        ({"system.cpus_per_node": 0.2}, 0.5, 4, 0),  # 4 periods of the quota of 20 ms / 0.05 = 1.6 s
        ({**AT_ONCE, "distribution.cycle_time_ms": 10}, 0.2, 4, 1),  # 4 cycles of 10 ms / 0.05 = 0.8 s
        ({**AT_ONCE, "distribution.cycle_time_ms": 50}, 0.5, 8, 0),
    ],
)
def test_a_window_is_long_beside_the_barrier_at_its_end(changes, step_s, timed, untimed):
    from train.loop.rounds import _steps
    from train.loop.windows import Length

    config = changed(load(["model=tiny", "measure.precision_fraction=0.05"]), changes)
    assert _steps(config, step_s=step_s) == Length(timed, untimed=untimed)


def test_a_disturbed_step_does_not_make_windows_shorter(measured, monkeypatch):
    from train.loop import windows

    def disturbed(step, batches, count):
        made = run_steps(step, batches, count)
        return replace(made, times_s={1: [0.125], 2: [9.0, 0.9]}.get(count, made.times_s))

    run_steps = windows.run_steps
    monkeypatch.setattr(windows, "run_steps", disturbed)
    context, _, _ = measured("measure.budget_s=0.001", "measure.precision_fraction=0.05")
    assert {len(window.step_times_s) for window in context.part.part.windows} == {4}  # 4 x 5 ms / 0.05 / 0.125 s


@pytest.mark.parametrize(("step_s", "expected"), [(0.25, [1, 2]), (0.5, [2])])  # long is 4 x 5 ms / 0.05 = 0.4 s
def test_a_window_begins_with_an_untimed_step_unless_steps_are_long(measured, monkeypatch, step_s, expected):
    from train.loop import windows

    def made_up(step, batches, count):
        counts.append(count)
        return replace(run_steps(step, batches, count), times_s=[step_s] * count)

    counts, run_steps = [], windows.run_steps
    monkeypatch.setattr(windows, "run_steps", made_up)
    measured("measure.budget_s=0.001", "measure.precision_fraction=0.05", arms=[ONE])
    assert counts[-1 - len(expected) : -1] == expected  # the very last step is that after the rounds


def test_ranks_that_a_stall_check_would_end_while_they_wait_are_an_error(measured, monkeypatch):
    monkeypatch.setenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0")
    measured("measure.budget_s=0.001")
    monkeypatch.setenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0.001")
    with pytest.raises(ConfigError, match=r"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=0\.001: ranks wait while others"):
        measured("measure.budget_s=0.001")
