from dataclasses import replace

import pytest

from record.disturbance import select
from record.protocol import EarlierLaunch, RoundsTask
from tests.helpers.configs import with_values
from tests.helpers.context import FirstOfTwo, make_context
from tests.helpers.lazy import Lazy
from tests.helpers.run_records import make_record
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.measure import LaunchPlan, RankGroup, RoundArm
from train.models import build

pytestmark = pytest.mark.slow

datasets, reader = Lazy("train.datasets"), Lazy("train.input.reader")
learners, roofline = Lazy("train.loop.learner"), Lazy("train.loop.roofline")
rounds, windows = Lazy("train.loop.rounds"), Lazy("train.loop.windows")


def arm(ranks: int = 1, name: str = "", **changes) -> RoundArm:
    """An arm of so many nodes with a rank each."""
    return RoundArm(name, ranks, ranks, **{"batch_per_rank": 2, "allreduce": True, **changes})


ONE_NODE, TWO_NODES, CONTROL = arm(1, role="base"), arm(2), arm(2, allreduce=False, role="control")
AT_ONCE = {"launch": LaunchPlan(rank_groups_at_once=True)}


@pytest.fixture
def rooflines(monkeypatch):
    """Replace the measurement of rooflines, which takes half a second each; return the arms that it gets."""
    arms = []
    monkeypatch.setattr("train.loop.roofline.measure", lambda context, among, arm, brief: arms.append((arm, brief)))
    return arms


@pytest.fixture
def measure(rooflines):
    """Measure rounds; return the part of rank 0. `end_s`: of the rounds, in ticks of the context's clock."""

    def run(*overrides: str, arms=(ONE_NODE, TWO_NODES), groups=(), core_sets=(), task=None, end_s=0.001, **measured):
        config = load(["model=tiny", "nodes=2", "batch_per_rank=2", "measure.precision_fraction=0.9", *overrides])
        plan = LaunchPlan(tuple(arms), tuple(groups), rank_groups_at_once=bool(groups), rounds_end_s=end_s)
        config = with_values(config, {"launch": plan})
        context = make_context(config, FirstOfTwo(), core_sets=core_sets, rounds=task or RoundsTask())
        context.part.add(**measured)
        data = datasets.DATASETS[config.dataset.name](config, 0)
        model = build("tiny", config.model.image_size, config.dataset.channels, config.dataset.classes)
        learner = learners.Learner(config, context.distribution, data, model)
        rounds.measure_rounds(context, learner)
        return context.part.part

    return run


@pytest.fixture
def step_counts(monkeypatch):
    """Return the numbers of steps that are run in succession."""
    counts, run_steps = [], windows.run_steps

    def run(step, batches, count):
        counts.append(count)
        return run_steps(step, batches, count)

    monkeypatch.setattr("train.loop.windows.run_steps", run)
    return counts


def test_a_round_has_a_window_of_every_arm_in_a_new_order(measure):
    measurements = measure(end_s=60).windows
    count = max(window.round for window in measurements) + 1
    orders = [[window.arm for window in measurements if window.round == number] for number in range(count)]
    assert all(sorted(order) == [0, 1] for order in orders)
    assert {tuple(order) for order in orders} == {(0, 1), (1, 0)}
    for window in measurements:
        assert 0 < sum(window.step_times_s) <= window.window_s <= window.cores.wall_s
        assert len(window.compute_times_s) == len(window.step_times_s) >= 2
        assert window.cores.own_s > 0


@pytest.mark.parametrize(("overrides", "controlled"), [((), [0, 4]), (("measure.split=true",), [0, 1, 2, 3, 4])])
def test_a_control_is_measured_in_every_fourth_round_unless_it_serves_to_split_a_step(overrides, controlled):
    config = load(["model=tiny", "nodes=2", "batch_per_rank=2", *overrides])
    config = with_values(config, {"launch": LaunchPlan((ONE_NODE, TWO_NODES, CONTROL))})
    due = [[index for index in range(3) if rounds._is_due(config, (index,), number)] for number in range(5)]
    assert [number for number, arms in enumerate(due) if 2 in arms] == controlled
    assert all(arms[:2] == [0, 1] for arms in due)


def test_a_split_measures_the_exchange_of_the_points_by_itself_in_every_round(measure, rooflines):
    # One rank exchanges nothing, nor does the control.
    [exchange] = measure("measure.split=true", arms=(ONE_NODE, TWO_NODES, CONTROL)).exchanges
    assert (exchange.round, exchange.arm) == (0, 1)
    assert len(exchange.step_times_s) == 2
    assert 0 < sum(exchange.step_times_s) <= exchange.window_s
    # Of each number of ranks: before the rounds, and briefly after them.
    assert rooflines == [(0, False), (1, False), (0, True), (1, True)]


def test_arms_that_read_go_on_in_their_epochs_and_read_nothing_between_windows(measure, monkeypatch):
    begun, ended = [], []
    training = reader.Reader.training

    def recorded(data, epoch):
        begun.append(epoch)
        try:
            yield from training(data, epoch)
        finally:
            ended.append(epoch)

    monkeypatch.setattr(reader.Reader, "training", recorded)
    overrides = ("dataset=digits", "dataset.training_samples=4000", "nodes=1", "measure.split=true")
    part = measure(*overrides, arms=[arm(role="base", reads=True), arm(name="in-memory")])
    assert {(window.round, window.arm) for window in part.windows} == {(0, 0), (0, 1)}
    assert begun == ended == [0, *range(len(begun) - 1)]  # the first is the one batch that is kept in memory
    assert len(begun) > 3  # traced, warmed up, one round, the last step


def test_every_window_starts_from_the_same_weights(measure, monkeypatch):
    begun, ended, restoring = [], [], windows.restoring

    def recording(variables):
        def values():
            return [variable.numpy().tolist() for variable in variables]

        def restore_and_record():
            ended.append(values())
            restore()
            begun.append(values())

        begun.append(values())  # before any step
        restore = restoring(variables)
        return restore_and_record

    monkeypatch.setattr("train.loop.windows.restoring", recording)
    measure()
    # Warm-up, one round, and the step that all make at the end.
    assert begun[1:] == [begun[0]] * (2 * 2 + 2 + 1)
    assert ended[-1] != begun[0]


def test_rank_groups_at_once_share_a_window_and_measure_once_on_the_cores_of_each(measure, monkeypatch):
    moved = []
    monkeypatch.setattr(windows.placement, "move", moved.append)
    groups = [RankGroup({}, 0, 1), RankGroup({}, 1, 1)]
    part = measure(arms=[ONE_NODE, arm(rank_group=1)], groups=groups, core_sets=[[0], [1]])
    [window] = part.windows
    assert (window.round, window.arm) == (0, 0)  # this process belongs to the first rank group
    assert moved == [[0], [1]]
    assert len(window.step_times_s) >= 2 * 2
    assert sum(window.step_times_s) <= window.window_s


def test_batches_for_which_the_budget_is_too_short_are_left_out_and_named(measure, monkeypatch):
    # Every step takes 0.9 s, whatever the batch.
    monkeypatch.setattr(windows.WindowRunner, "last_step_s", lambda runner, arms, steps: 0.9)
    arms = [arm(name=f"batch{batch}", batch_per_rank=batch, role="base") for batch in (1, 2, 4, 64)]
    # Windows of 2 steps: 1.8 s + 1.8 s; batch 4 is expected to take a step of 1.8 s: 5.4 s a round, 32 s for six.
    # It takes 2 steps of 0.9 s. Batch 64 would then take a step of 14.4 s: 20 s a round, 119 s for six.
    part = measure("measure.repeats=1", arms=arms, end_s=75)
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
    assert rounds._steps(config, step_s=step_s) == windows.Length(timed, untimed=untimed)


def test_a_disturbed_step_does_not_make_windows_shorter(measure, step_counts, monkeypatch):
    run_steps = windows.run_steps

    def disturbed(step, batches, count):
        steps = run_steps(step, batches, count)
        return replace(steps, times_s={1: [0.125], 2: [9.0, 0.9]}.get(count, steps.times_s))

    monkeypatch.setattr("train.loop.windows.run_steps", disturbed)
    part = measure("measure.precision_fraction=0.05", arms=[ONE_NODE])
    assert {len(window.step_times_s) for window in part.windows} == {4}  # 4 x 5 ms / 0.05 / 0.125 s
    assert step_counts[-3:] == [1, 4, 1]  # an untimed step, the window, and the step after the rounds


def test_ranks_that_a_stall_check_would_end_while_they_wait_are_an_error(measure, monkeypatch):
    monkeypatch.setenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0")
    measure()
    monkeypatch.setenv("HOROVOD_STALL_SHUTDOWN_TIME_SECONDS", "0.001")
    with pytest.raises(ConfigError, match=r"HOROVOD_STALL_SHUTDOWN_TIME_SECONDS=0\.001: ranks wait while others"):
        measure()


def test_rounds_end_once_enough_of_them_count(measure):
    part = measure(end_s=600, task=RoundsTask(enough_rounds=3))
    assert len(select(dict(enumerate(part.disturbances)), 0.9).counting) == 3
    assert part.windows[-1].round + 1 == len(part.disturbances)


def test_rounds_that_begin_late_have_their_time(measure):
    """A reading of the clock is a second; the launch was to end after a thousandth of one."""
    assert measure().windows[-1].round == 0
    assert measure(task=RoundsTask(rounds_s=20.0)).windows[-1].round > 2


@pytest.mark.parametrize("cores", [4, 8])
def test_a_launch_on_the_machine_of_an_earlier_one_takes_its_step_times(measure, rooflines, step_counts, cores):
    """Steps of half a second need no untimed step, and windows of two; those of the tiny model are far shorter."""
    environment = make_record().environment
    [host] = environment.hosts
    earlier = EarlierLaunch([(host.host, host.cpu_model, cores)], [0.5, 0.5])
    part = measure(task=RoundsTask(earlier=earlier), environment=environment)
    windows = {len(window.step_times_s) for window in part.windows}
    if host.cores == cores:
        assert rooflines == []
        assert part.untimed_steps == dict.fromkeys(("", ""), 0)
        assert windows == {2}
        assert step_counts[:4] == [1, 1, 0, 2]  # each is traced, and the first window follows
    else:
        assert rooflines[:2] == [(0, False), (1, False)]
        assert step_counts[:5] == [1, 1, 1, 2, 1]  # one is traced, and timed twice; so is the other
