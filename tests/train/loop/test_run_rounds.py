import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from record.protocol import EarlierLaunch, RoundsTask
from record.recorded_config import RankGroup, RoundArm
from record.schema import CoreUse, Window
from tests.helpers.configs import with_values
from tests.helpers.context import FirstOfTwo, make_context
from tests.helpers.run_records import make_record
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.measure_config import LaunchPlan
from train.loop import NotFinite, run_rounds
from train.rank.phases import PhaseClock

BEFORE_S = 10.0  # since the launch, until the rounds begin


def arm(ranks: int = 1, name: str = "", **changes) -> RoundArm:
    """An arm of so many nodes with a rank each."""
    return RoundArm(name, ranks, ranks, **{"batch_per_rank": 2, "allreduce": True, **changes})


ONE_NODE, TWO_NODES, CONTROL = arm(1, role="base"), arm(2), arm(2, allreduce=False, role="control")
AT_ONCE = {"launch": LaunchPlan(rank_groups_at_once=True)}


class FakeWindows:
    """Windows of arms whose steps all take the same time, by a clock that nothing else advances.

    The time of a step in the warm-up is the next of `warm_up_s`. The disturbance of rank 0 is the same in all windows
    of a round. `calls` has what is run, in its order.
    """

    limited = False

    def __init__(self, step_s: float, warm_up_s: Sequence[float], disturbances: Sequence[float], split: bool) -> None:
        self.now, self.calls, self.step_s = BEFORE_S, [], step_s
        self._warm_up_s, self._disturbances = itertools.cycle(warm_up_s or [step_s]), disturbances
        self.exchanges = [1] if split else []

    def trace(self) -> None:
        self.calls.append("trace")

    def is_untraced(self, arms: run_rounds.ArmSet) -> bool:
        return True

    def last_step_s(self, arms: run_rounds.ArmSet, steps: int) -> float:
        self.calls.append(("steps", arms, steps))
        return next(self._warm_up_s)

    def run_window(self, arms: run_rounds.ArmSet, number: int, steps: run_rounds.Length) -> tuple[Window, bool]:
        self.calls.append(("window", arms, number))
        self.now += self.step_s * (steps.timed + steps.untimed)
        stolen_s = self._disturbances[number] if number < len(self._disturbances) else 0.0
        use = CoreUse(wall_s=1.0, own_s=1.0, busy_s=1.0, steal_s=stolen_s)
        return Window(number, arms[0], 1.0, [self.step_s] * steps.timed, cores=use), True

    def exchange(self, index: int, number: int) -> Window:
        self.calls.append(("exchange", index, number))
        return Window(number, index, 1.0, [0.5])

    def measure_roofline(self, index: int, brief: bool) -> None:
        self.calls.append(("roofline", index, brief))


def measure(
    *overrides: str, arms=(ONE_NODE, TWO_NODES), groups=(), task=None, end_s=0.0, step_s=0.25, warm_up_s=(),
    disturbances=(), answer: Callable = lambda value: value, **measured,
):  # fmt: skip
    """Return the part of rank 0 and the calls of measured rounds.

    With the requested precision of 0.9 and steps of 0.25 s a window is two steps, and a round of two arms is a second.
    answer: makes what rank 1 sends from what rank 0 does.
    """
    config = load(["model=tiny", "nodes=2", "batch_per_rank=2", "measure.precision_fraction=0.9", *overrides])
    plan = LaunchPlan(tuple(arms), tuple(groups), rank_groups_at_once=bool(groups), rounds_end_s=end_s)
    config = with_values(config, {"launch": plan})
    windows = FakeWindows(step_s, warm_up_s, disturbances, config.measure.split)
    context = make_context(config, FirstOfTwo(answer), rounds=task or RoundsTask())
    context = replace(context, clock=PhaseClock(started_at=0.0, now=lambda: windows.now))
    context.part.add(**measured)
    run_rounds.measure_rounds(context, windows)
    assert not windows.limited
    return context.part.part, windows.calls


def round_numbers(part) -> list[int]:
    return sorted({window.round for window in part.windows})


def test_a_round_has_a_window_of_every_arm_in_a_new_order():
    part, calls = measure(end_s=BEFORE_S + 8)
    orders = [tuple(call[1] for call in calls if call[0] == "window" and call[2] == number) for number in range(8)]
    assert {*orders} == {((0,), (1,)), ((1,), (0,))}
    assert round_numbers(part) == [*range(8)]


@pytest.mark.parametrize(("overrides", "controlled"), [((), [0, 4]), (("measure.split=true",), [0, 1, 2, 3, 4])])
def test_a_control_is_measured_in_every_fourth_round_unless_it_serves_to_split_a_step(overrides, controlled):
    part, _ = measure(*overrides, arms=(ONE_NODE, TWO_NODES, CONTROL), task=RoundsTask(enough_rounds=5), end_s=600)
    assert [window.round for window in part.windows if window.arm == 2] == controlled
    assert [sorted(window.arm for window in part.windows if window.round == n)[:2] for n in range(5)] == [[0, 1]] * 5


def test_before_and_after_the_rounds_rooflines_are_measured_and_at_last_all_ranks_make_a_step_together():
    part, calls = measure("measure.split=true", arms=(ONE_NODE, TWO_NODES, CONTROL, arm(2, link_mbit_per_s=100.0)))
    assert [call for call in calls if call[0] != "window"] == [
        "trace",
        *(("steps", (index,), steps) for index in range(4) for steps in (2, 1)),  # the first is traced
        ("exchange", 1, 0),  # traced
        # Once for each number of ranks and each rate of links.
        *(("roofline", index, False) for index in (0, 1, 3)),
        ("exchange", 1, 0),
        *(("roofline", index, True) for index in (0, 1, 3)),
        ("steps", (1,), 1),
    ]
    assert [(window.round, window.arm) for window in part.exchanges] == [(0, 1)]


@pytest.mark.parametrize(("end_s", "count"), [(0.0, 1), (3.4, 3), (3.6, 4)])
def test_half_of_the_last_round_may_be_beyond_the_end_of_the_launch(end_s, count):
    """After three rounds the fourth would have its middle at 3.5 s."""
    assert round_numbers(measure(end_s=BEFORE_S + end_s)[0]) == [*range(count)]


def test_rounds_that_begin_late_have_their_time():
    assert round_numbers(measure(task=RoundsTask(rounds_s=2.6))[0]) == [0, 1, 2]


def test_rounds_end_once_enough_of_them_count():
    """Not rounds 0 and 2: of the others the third is round 4. Until then half of the rounds count, if disturbed."""
    part, _ = measure(end_s=600, task=RoundsTask(enough_rounds=3), disturbances=[0.95, 0.1, 0.95])
    assert part.disturbances == [0.95, 0.1, 0.95, 0.0, 0.0]
    assert round_numbers(part) == [0, 1, 2, 3, 4]


def test_a_round_is_disturbed_as_much_as_its_most_disturbed_rank():
    def disturbed(value):
        return replace(value, disturbance=0.5) if isinstance(value, run_rounds._Report) else value

    assert measure(disturbances=[0.2], answer=disturbed)[0].disturbances == [0.5]
    assert measure(disturbances=[0.7], answer=disturbed)[0].disturbances == [0.7]


def test_a_loss_of_another_rank_that_is_no_number_ends_the_rounds_after_they_are_recorded():
    def spoilt(value):
        return replace(value, finite=False) if isinstance(value, run_rounds._Report) else value

    with pytest.raises(NotFinite, match="not finite at step 3"):  # at the latest: the two steps of a window, and one
        measure(answer=spoilt)


def test_rank_groups_at_once_measure_in_one_window():
    groups = [RankGroup({}, 0, 1), RankGroup({}, 1, 1)]
    _, calls = measure(arms=[ONE_NODE, arm(rank_group=1)], groups=groups)
    assert [call for call in calls if call[0] == "window"] == [("window", (0, 1), 0)]
    assert calls[-2:] == [("steps", (0,), 1), ("steps", (1,), 1)]


def test_batches_for_which_the_budget_is_too_short_are_left_out_and_named():
    # Every step takes 0.9 s, whatever the batch.
    arms = [arm(name=f"batch{batch}", batch_per_rank=batch, role="base") for batch in (1, 2, 4, 64)]
    # Windows of 2 steps: 1.8 s + 1.8 s; batch 4 is expected to take a step of 1.8 s: 5.4 s a round, 32 s for six.
    # It takes 2 steps of 0.9 s. Batch 64 would then take a step of 14.4 s: 20 s a round, 119 s for six.
    part, _ = measure("measure.repeats=1", arms=arms, step_s=0.9, end_s=75)
    assert part.arms_left_out == {"batch64": "a round with it would take 20 s; a launch has 75 s"}
    assert {window.arm for window in part.windows} == {0, 1, 2}


@pytest.mark.parametrize(
    ("changes", "step_s", "timed", "untimed"),
    [
        ({}, 0.125, 4, 1),  # 4 x 5 ms / 0.05 = 0.4 s
        ({}, 0.39, 2, 1),
        ({}, 0.41, 2, 0),  # long steps need no untimed one before them
        ({}, 1.0, 1, 0),
        ({"system.cpu_quota_per_node": 0.2}, 0.5, 4, 0),  # 4 periods of the quota of 20 ms / 0.05 = 1.6 s
        ({**AT_ONCE, "distribution.cycle_time_ms": 10}, 0.2, 4, 1),  # 4 cycles of 10 ms / 0.05 = 0.8 s
    ],
)
def test_a_window_is_long_beside_the_barrier_at_its_end(changes, step_s, timed, untimed):
    config = with_values(load(["model=tiny", "measure.precision_fraction=0.05"]), changes)
    assert run_rounds._steps(config, step_s=step_s) == run_rounds.Length(timed, untimed=untimed)


@pytest.mark.parametrize("warm_up_s", [(0.9, 0.125), (0.125, 0.9)])
def test_a_disturbed_step_does_not_make_windows_shorter(warm_up_s):
    part, _ = measure("measure.precision_fraction=0.05", arms=[ONE_NODE], warm_up_s=warm_up_s)
    assert {len(window.step_times_s) for window in part.windows} == {4}  # 4 x 5 ms / 0.05 / 0.125 s


def test_ranks_that_a_stall_check_would_end_while_they_wait_are_an_error(monkeypatch):
    """They wait for windows of 0.5 s, ten times as long if those are disturbed."""
    for enough in ("0", "5.0"):
        monkeypatch.setenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", enough)
        measure()
    monkeypatch.setenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "4.9")
    with pytest.raises(ConfigError, match=r"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=4\.9: ranks wait while others"):
        measure()


@pytest.mark.parametrize("cores", [4, 8])
def test_a_launch_on_the_machine_of_an_earlier_one_takes_its_step_times(cores):
    """Steps of half a second need no untimed step at the default precision, and windows of two."""
    environment = make_record().environment
    [host] = environment.hosts
    task = RoundsTask(earlier=EarlierLaunch([(host.host, host.cpu_model, cores)], [0.5, 0.5]))
    part, calls = measure(task=task, environment=environment, warm_up_s=[0.001])
    is_same = host.cores == cores
    assert [call for call in calls if call[0] == "roofline"] == ([] if is_same else [
        ("roofline", 0, False), ("roofline", 1, False), ("roofline", 0, True), ("roofline", 1, True)
    ])  # fmt: skip
    assert [call[2] for call in calls if call[0] == "steps"] == ([1, 1, 1] if is_same else [2, 1, 2, 1, 1])
    # 4 x 5 ms / 0.9 is 22.2 ms, of steps of a millisecond 23
    assert {len(window.step_times_s) for window in part.windows} == ({2} if is_same else {23})
    assert part.untimed_steps == {"": 0 if is_same else 1}
