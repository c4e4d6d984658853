import pytest

from record.recorded_config import RankGroup, RoundArm
from tests.helpers.configs import with_values
from tests.helpers.context import FirstOfTwo, make_context
from tests.helpers.lazy import Lazy
from train.config.compose import load
from train.config.measure_config import LaunchPlan
from train.loop import run_rounds
from train.models import build

pytestmark = pytest.mark.slow

datasets, reader = Lazy("train.datasets"), Lazy("train.input.reader")
learners, windows = Lazy("train.loop.learner"), Lazy("train.loop.windows")


def arm(ranks: int = 1, name: str = "", **changes) -> RoundArm:
    """An arm of so many nodes with a rank each."""
    return RoundArm(name, ranks, ranks, **{"batch_per_rank": 2, "allreduce": True, **changes})


ONE_NODE, TWO_NODES, CONTROL = arm(1, role="base"), arm(2), arm(2, allreduce=False, role="control")


@pytest.fixture
def rooflines(monkeypatch):
    """Replace the measurement of rooflines, which takes half a second each; return the arms that it gets."""
    arms = []
    monkeypatch.setattr("train.loop.roofline.measure", lambda context, among, arm, brief: arms.append((arm, brief)))
    return arms


@pytest.fixture
def measure(rooflines):
    """Measure rounds; return the part of rank 0. `end_s`: of the rounds, in ticks of the context's clock."""

    def run(*overrides: str, arms=(ONE_NODE, TWO_NODES), groups=(), core_sets=(), end_s=0.001):
        config = load(["model=tiny", "nodes=2", "batch_per_rank=2", "measure.precision_fraction=0.9", *overrides])
        plan = LaunchPlan(tuple(arms), tuple(groups), rank_groups_at_once=bool(groups), rounds_end_s=end_s)
        config = with_values(config, {"launch": plan})
        context = make_context(config, FirstOfTwo(), core_sets=core_sets)
        data = datasets.DATASETS[config.dataset.name](config, 0)
        model = build("tiny", config.model.image_size, config.dataset.channels, config.dataset.classes)
        learner = learners.Learner(config, context.distribution, data, model)
        run_rounds.measure_rounds(context, windows.WindowRunner(context, learner))
        return context.part.part

    return run


def test_a_window_has_its_steps_and_the_counts_of_its_cores(measure):
    measurements = measure().windows
    assert sorted((window.round, window.arm) for window in measurements) == [(0, 0), (0, 1)]
    for window in measurements:
        assert 0 < sum(window.step_times_s) <= window.window_s <= window.cores.wall_s
        assert len(window.compute_times_s) == len(window.step_times_s) >= 2
        assert window.cores.own_s > 0


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
