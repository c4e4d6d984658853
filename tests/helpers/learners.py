"""Training without a model, for tests of the loops around it: steps that return the losses that a test gives."""

import itertools
from dataclasses import dataclass, field


def losses(*values):
    """A training step that returns these losses, one each step, and one correct answer."""
    import tensorflow as tf

    sequence = iter(values)
    return lambda images, labels: (tf.constant(next(sequence)), tf.constant(1.0), tf.timestamp())


class EndlessData:
    """One batch of nothing, again and again: the step under test decides what it costs."""

    step_batch = 2
    steps_per_epoch = None
    dropped_samples = 0

    def training(self, epoch):
        return itertools.repeat((None, None))


class TenSamples:
    """An epoch of five steps on one rank."""

    step_batch = 2
    steps_per_epoch = 5
    class_names = ()
    ranks = 1

    def training(self, epoch, used=0):
        return iter([(None, None)] * self.steps_left(used))

    def validation(self):
        return iter(())

    def steps_left(self, used):
        return (10 - used) // (2 * self.ranks)

    def share_out(self, rank, ranks):
        self.ranks = ranks


class NoModel:
    submodules = ()
    output_shape = (None, 2)


@dataclass
class Learner:
    """What the loops need of train.loop.learner.Learner."""

    train_step: object
    data: object = field(default_factory=TenSamples)
    model: object = field(default_factory=NoModel)

    def evaluate(self, predictions=None):
        return None
