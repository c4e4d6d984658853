import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from types import SimpleNamespace

import pytest

from record.protocol import EarlierLaunch, RoundsTask
from record.recorded_config import RankGroup
from record.schema import CoreUse, Window
from tests.helpers.configs import arm, with_values
from tests.helpers.context import FirstOfTwo, make_context
from tests.helpers.run_records import make_record
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.measure_config import LaunchPlan
from train.loop import NotFinite, run_rounds
from train.rank.phases import PhaseClock
from train.transport import RankUnresponsive
from train.transport.tcp_group import TcpGroup

BEFORE_S = 10.0  # since the launch, until the rounds begin


ONE_NODE, TWO_NODES, CONTROL = arm(1, role="base"), arm(2), arm(2, allreduce=False, role="control")
AT_ONCE = {"launch": LaunchPlan(rank_groups_at_once=True)}


class FakeWindows:
    """Windows of arms whose steps all take the same time, by a clock that nothing else advances.

    The time of a step in the warm-up is the next of `warm_up_s`. What the hypervisor takes from rank 0 is the same in
    all windows of a round, and another process takes 0.25 s. `calls` has what is run, in its order.
    """

    limited, spoilt = False, None  # the arms whose losses are no numbers

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
        assert self.limited
        self.calls.append(("window", arms, number))
        self.now += self.step_s * (steps.timed + steps.untimed)
        stolen_s = self._disturbances[number] if number < len(self._disturbances) else 0.0
        use = CoreUse(wall_s=1.0, own_s=0.75, busy_s=1.0, steal_s=stolen_s)
        return Window(number, arms[0], 1.0, [self.step_s] * steps.timed, cores=use), arms != self.spoilt

    def exchange(self, index: int, number: int) -> Window:
        self.calls.append(("exchange", index, number))
        return Window(number, index, 1.0, [0.5])

    def measure_roofline(self, index: int, brief: bool) -> None:
        self.calls.append(("roofline", index, brief))


def measure(
    *overrides: str, arms=(ONE_NODE, TWO_NODES), groups=(), task=None, end_s=0.0, step_s=0.25, warm_up_s=(),
    disturbances=(), answer: Callable = lambda value: value, spoilt=None, **measured,
):  # fmt: skip
    """Return the part of rank 0 and the calls of measured rounds.

    With the requested precision of 0.9 and steps of 0.25 s a window is two steps, and a round of two arms is a second.
    answer: makes what rank 1 sends from what rank 0 does.
    """
    config = load(["model=tiny", "nodes=2", "batch_per_rank=2", "measure.precision_fraction=0.9", *overrides])
    plan = LaunchPlan(tuple(arms), tuple(groups), rank_groups_at_once=bool(groups), rounds_end_s=end_s)
    config = with_values(config, {"launch": plan})
    windows, ranks = FakeWindows(step_s, warm_up_s, disturbances, config.measure.split), FirstOfTwo(answer)
    note, windows.spoilt = windows.calls.append, spoilt
    ranks.barrier = lambda: note("barrier")
    gate = SimpleNamespace(wait_for_quota=lambda: note("quotas"), release=lambda: note("no quotas"))
    clock = PhaseClock(0.0, lambda phase, phases_s: note((phase, dict(phases_s))), now=lambda: windows.now)
    context = replace(make_context(config, ranks, rounds=task or RoundsTask(), gate=gate), clock=clock)
    context.part.add(**measured)
    run_rounds.measure_rounds(context, windows)
    assert not windows.limited
    return context.part.part, windows.calls


def otherwise(kind, **changes):
    """Return what makes the answers of rank 1: those of rank 0, of this kind with these changes."""
    return lambda value: replace(value, **changes) if isinstance(value, kind) else value


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
        ("warm_up", {"start": BEFORE_S}),
        *(("steps", (index,), steps) for index in range(4) for steps in (2, 1)),  # the first is traced
        ("exchange", 1, 0),  # traced
        "quotas",
        # Once for each number of ranks and each rate of links.
        *(("roofline", index, False) for index in (0, 1, 3)),
        ("timed", {"start": BEFORE_S, "warm_up": 0.0}),
        "barrier",
        ("exchange", 1, 0),
        ("evaluate", {"start": BEFORE_S, "warm_up": 0.0, "timed": 2.0}),
        *(("roofline", index, True) for index in (0, 1, 3)),
        "no quotas",
        ("steps", (1,), 1),
    ]
    assert [(window.round, window.arm) for window in part.exchanges] == [(0, 1)]


@pytest.mark.parametrize(("end_s", "count"), [(0.0, 1), (3.5, 3), (3.6, 4)])
def test_half_of_the_last_round_may_be_beyond_the_end_of_the_launch(end_s, count):
    """After three rounds the fourth would have its middle at 3.5 s, by the clock of rank 0."""
    late = otherwise(run_rounds._Report, began_s=0.0, elapsed_s=1000.0)
    assert round_numbers(measure(end_s=BEFORE_S + end_s, answer=late)[0]) == [*range(count)]


def test_rounds_that_begin_late_have_their_time():
    assert round_numbers(measure(task=RoundsTask(rounds_s=2.6))[0]) == [0, 1, 2]


def test_rounds_end_once_enough_of_them_count():
    """Not rounds 0 and 2: of the others the third is round 4. Until then half of the rounds count, if disturbed."""
    part, _ = measure(end_s=600, task=RoundsTask(enough_rounds=3), disturbances=[0.95, 0.1, 0.95])
    assert part.disturbances == [0.95, 0.1, 0.95, 0.0, 0.0]
    assert round_numbers(part) == [0, 1, 2, 3, 4]


def test_a_round_is_disturbed_as_much_as_its_most_disturbed_rank():
    disturbed = otherwise(run_rounds._Report, disturbance=0.5)
    assert measure(disturbances=[0.2], answer=disturbed)[0].disturbances == [0.5]
    assert measure(disturbances=[0.7], answer=disturbed)[0].disturbances == [0.7]


@pytest.mark.parametrize(("seat", "disturbance"), [({"cores": [1]}, 0.24), ({"rank_group": 1}, 0.24), ({}, 0.0)])
def test_what_ranks_on_the_same_cores_take_from_each_other_disturbs_no_round(seat, disturbance):
    """Another process took 0.25 s, less a tick. Rank groups take turns."""
    part, _ = measure(cores=[0], answer=otherwise(run_rounds._Seat, **seat))
    assert part.disturbances == [pytest.approx(disturbance)]


@pytest.mark.parametrize("spoilt", [{"answer": otherwise(run_rounds._Report, finite=False)}, {"spoilt": (1,)}])
def test_a_loss_of_any_rank_that_is_no_number_ends_the_rounds_after_they_are_recorded(spoilt):
    # At the latest: of a millisecond a window needs 23 steps, as 4 x 5 ms / 0.9 is 22.2 ms; and one before it.
    with pytest.raises(NotFinite, match="not finite at step 24"):
        measure(warm_up_s=[0.001, 0.001, 0.25, 0.25], **spoilt)


def test_emulated_nodes_make_steps_again_under_their_quotas_and_what_keeps_them_awake_disturbs_no_round():
    part, calls = measure("system.cpu_quota_per_node=0.2", cores=[0], answer=otherwise(run_rounds._Seat, cores=[1]))
    assert [call[2] for call in calls if call[0] == "steps"] == [2, 1, 2, 1, 2, 1, 2, 1, 1]
    assert part.disturbances == [0.0]


def test_rank_groups_at_once_measure_in_one_window():
    groups = [RankGroup({}, 0, 1), RankGroup({}, 1, 1)]
    _, calls = measure(arms=[ONE_NODE, arm(rank_group=1)], groups=groups)
    assert [call for call in calls if call[0] == "window"] == [("window", (0, 1), 0)]
    assert calls[-2:] == [("steps", (0,), 1), ("steps", (1,), 1)]


def test_batches_for_which_the_budget_is_too_short_are_left_out_and_named():
    # Every step takes 0.9 s, whatever the batch; the first two batches are measured with any budget.
    arms = [arm(name=f"batch{batch}", batch_per_rank=batch, role="base") for batch in (1, 64, 6404, 128)]
    arms.insert(2, CONTROL)  # on more ranks: it says nothing of the batch after it
    # Windows of 3 steps: 3 x 2.7 s. Batch 6404 would take one step of 90.06 s: 98.16 s a round.
    # Batch 128 is expected to take one of 1.8 s: 9.9 s a round, 29.7 s for three of the six rounds in two launches.
    part, _ = measure("measure.repeats=2", "measure.precision_fraction=0.02", arms=arms, step_s=0.9, end_s=30)
    assert part.arms_left_out == {"batch6404": "a round with it would take 98 s; a launch has 30 s"}
    assert {window.arm for window in part.windows} == {0, 1, 2, 4}


@pytest.mark.parametrize(
    ("changes", "step_s", "timed", "untimed"),
    [
        ({}, 0.125, 4, 1),  # 4 x 5 ms / 0.05 = 0.4 s
        ({}, 0.39, 2, 1),
        ({}, 0.4, 2, 0),  # long steps need no untimed one before them
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
        measure(warm_up_s=[0.1, 0.1, 0.25, 0.25])
    for short in ("4.9", "0.5"):
        monkeypatch.setenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", short)
        with pytest.raises(ConfigError, match=rf"^HOROVOD_STALL_SHUTDOWN_TIME_SECONDS={short}: .* at least 5$"):
            measure(warm_up_s=[0.1, 0.1, 0.25, 0.25])


@pytest.mark.parametrize(("gloo_s", "limit_s"), [("2000", 2000), ("500", 1000)])
def test_a_rank_that_does_not_come_to_a_window_is_named(monkeypatch, gloo_s, limit_s):
    """Ten windows of 100 s are waited for, or as long as Gloo waits."""
    monkeypatch.setenv("HOROVOD_GLOO_TIMEOUT_SECONDS", gloo_s)
    ranks = TcpGroup(0, 2, [])
    run_rounds._limit_waits(ranks, ["a", "b"], longest_s=100.0)
    ranks.on_wait(1, limit_s)
    with pytest.raises(RankUnresponsive, match=rf"rank 1 \(b\) did not come to the next window within {limit_s} s"):
        ranks.on_wait(1, limit_s + 1.0)


@pytest.mark.parametrize("cores", [4, 8])
def test_a_launch_on_the_machine_of_an_earlier_one_takes_its_step_times(cores):
    """Steps of half a second need no untimed step at the default precision, and windows of two."""
    environment = make_record().environment
    [host] = environment.hosts
    task = RoundsTask(earlier=EarlierLaunch([(host.host, host.cpu_model, cores)], [0.5, 0.5]))
    part, calls = measure(
        task=task, environment=environment, warm_up_s=[0.001],
        answer=lambda value: not value if isinstance(value, bool) else value,  # only rank 0 knows all hosts
    )  # fmt: skip
    is_same = host.cores == cores
    assert [call for call in calls if call[0] == "roofline"] == ([] if is_same else [
        ("roofline", 0, False), ("roofline", 1, False), ("roofline", 0, True), ("roofline", 1, True)
    ])  # fmt: skip
    assert [call[2] for call in calls if call[0] == "steps"] == ([1, 1, 1] if is_same else [2, 1, 2, 1, 1])
    # 4 x 5 ms / 0.9 is 22.2 ms, of steps of a millisecond 23
    assert {len(window.step_times_s) for window in part.windows} == ({2} if is_same else {23})
    assert part.untimed_steps == {"": 0 if is_same else 1}
