import itertools

import pytest

from train.rank.phases import PhaseClock

pytestmark = pytest.mark.slow


class Endless:
    """One batch of nothing, again and again: the step under test decides what it costs."""

    batch_per_rank = 2
    steps_per_epoch = None
    dropped_samples = 0

    def training(self, epoch):
        return itertools.repeat((None, None))


def losses(*values):
    """A training step that gives these losses, one a step."""
    import tensorflow as tf

    given = iter(values)
    return lambda images, labels: (tf.constant(next(given)), tf.constant(1.0), tf.timestamp())


@pytest.fixture
def clock():
    ticks = itertools.count()
    return PhaseClock(started_at=-1.0, rank="0", now=lambda: float(next(ticks)))


def test_the_first_step_and_the_warm_up_are_not_timed(clock):
    from train.distribution.backends import Alone
    from train.loop import measure

    measured = measure.time_steps(losses(9.0, 8.0, 7.0, 6.0, 5.0), Endless(), 2, 2, Alone(), clock)
    assert measured.losses == [6.0, 5.0]
    assert len(measured.warm_up_step_times_s) == 2
    assert len(measured.step_times_s) == 2
    # The fake step says that it has computed when it is called: between the begin and the end of its step.
    for computed_s, step_s in zip(measured.compute_times_s, measured.step_times_s, strict=True):
        assert 0 < computed_s < step_s
    # One tick a change of phase: each of these phases lasted one.
    assert clock.stop() == {"start": 1.0, "first_step": 1.0, "warm_up": 1.0, "timed": 1.0, "evaluate": 1.0}


@pytest.mark.parametrize(("values", "step"), [((float("nan"), 1.0, 1.0, 1.0), 1), ((1.0, 1.0, 1.0, float("inf")), 4)])
def test_a_loss_that_is_no_number_is_named_with_its_step(clock, values, step):
    from train.distribution.backends import Alone
    from train.loop import measure

    with pytest.raises(measure.NotFinite, match=f"not finite at step {step}") as raised:
        measure.time_steps(losses(*values), Endless(), 1, 2, Alone(), clock)
    assert raised.value.step == step


class TenSamples:
    """An epoch of five steps."""

    batch_per_rank = 2
    class_names = ()

    def training(self, epoch, used=0):
        return iter([(None, None)] * self.steps_left(used))

    def validation(self):
        return iter(())

    def steps_left(self, used):
        return (10 - used) // 2


def test_training_goes_on_from_any_commit_as_if_nothing_had_happened(clock):
    from train.distribution.backends import Alone
    from train.loop import measure

    model = type("", (), {"submodules": [], "output_shape": (None, 2)})
    start, commits = measure.Progress(), []

    def train(values, progress=start, times=None):
        return measure.train_epochs(
            losses(*values), None, model, TenSamples(), 2, Alone(), clock, progress, commits.append, 2, times
        )

    whole = train((1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0))
    assert [(epoch.steps, epoch.train_loss, epoch.train_accuracy) for epoch in whole.epochs] == [
        (5, 3, 0.5),
        (5, 8, 0.5),
    ]
    assert whole.losses == [2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0]  # the first step is not timed
    assert [(len(p.epochs), p.steps, p.samples, p.steps_before) for p in commits] == [
        (0, 2, 4, 2), (0, 4, 8, 4), (1, 0, 0, 5), (1, 2, 4, 7), (1, 4, 8, 9), (2, 0, 0, 10)
    ]  # fmt: skip
    times = [0.5]
    rest = train((8.0, 9.0, 10.0), commits[3], times)
    assert [(e.steps, e.train_loss) for e in rest.epochs] == [(5, 3), (5, 8)]
    assert rest.losses == whole.losses
    assert len(times) == 3
    assert times[0] == 0.5
