"""Training on one rank, from the data to the weights: import it after TensorFlow has its threads and its GPU set."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import tensorflow as tf
import tf_keras

from train.config.schema import Config, ConfigError
from train.datasets import DATASETS, Data
from train.distribution import backends
from train.distribution.backends import Distribution
from train.loop import checkpoint, elastic_epochs, measure, step, weights
from train.models import build, freeze_below_classifier
from train.rank.phases import PhaseClock
from train.rank.quota_gate import Limits
from train.record import parts, paths
from train.record.predictions import Predictions


def train(
    config: Config,
    clock: PhaseClock,
    part: parts.Part,
    joined: Distribution,
    limits: Limits,
    run_dir: Path | None,
    introduce: Callable[[], None],
) -> Predictions | None:
    """Build, measure and evaluate on this rank; what it measured goes into `part` as it comes.

    run_dir: the run's folder, where a launcher made one.
    introduce: tells the other ranks where this one is; of elastic training again whenever the ranks have changed.
    Gives what the model answered at the end, where there is something to answer.
    Raises ConfigError, NotFinite, or what TensorFlow and Horovod raise.
    """

    def meet() -> None:
        introduce()
        if data.fingerprint and len(set(joined.gather(data.fingerprint))) > 1:
            raise ConfigError(f"dataset.data_dir={config.dataset.data_dir}: the ranks find different samples in it")

    clock.enter("data")
    data = DATASETS[config.dataset.name](config, joined.rank)
    if not config.distribution.elastic:  # there those that are training already must hear of it too
        meet()
    clock.enter("build")
    tf_keras.utils.set_random_seed(config.seed)
    tf_keras.mixed_precision.set_global_policy(step.POLICIES[config.precision])
    model = build(config.model.name, config.model.image_size, config.dataset.channels, config.dataset.classes)
    if config.model.train_layers == "classifier":
        freeze_below_classifier(model)
    model = weights.start(model, config, load=joined.rank == 0)  # the others get them by the broadcast
    if isinstance(joined, elastic_epochs.ElasticHorovod):
        measured, part.resizes = elastic_epochs.train_epochs(config, joined, data, model, clock, meet)
        part.rank.rank, part.rank.node = joined.rank, joined.rank // config.ranks_per_node
    else:
        measured = _train_together(config, joined, data, model, clock, limits, run_dir, part)
    part.rank.warm_up_step_times_s = measured.warm_up_step_times_s
    part.rank.step_times_s = measured.step_times_s
    if config.device == "cpu":  # a GPU is told its work ahead of time: when it is done, the step does not see
        part.rank.compute_times_s = measured.compute_times_s
    part.losses, part.epochs = measured.losses, measured.epochs
    if joined.rank == 0 and config.weights != weights.NONE:
        part.notes.append(weights.describe(config))
    elif joined.rank == 0 and config.model.train_layers == "classifier":
        part.notes.append("the layers below the classifier stay random: the accuracies mean nothing")
    if data.dropped_samples:
        part.notes.append(f"{data.dropped_samples} samples an epoch left out: less than one global batch")
    part.notes += dict.fromkeys(note for notes in joined.gather(list(data.notes)) for note in notes)
    if config.distribution.allreduce:
        part.weights_differ = backends.weights_differ(joined, model.trainable_variables)
        if part.weights_differ:
            raise RuntimeError("the ranks hold different weights after training: gradients were not averaged")
    return measured.predictions


def _train_together(
    config: Config,
    joined: Distribution,
    data: Data,
    model: tf_keras.Model,
    clock: PhaseClock,
    limits: Limits,
    run_dir: Path | None,
    part: parts.Part,
) -> measure.Measurement:
    """Train and measure on the ranks that began, to the end: steps, or epochs. Raises NotFinite."""
    optimizer = step.make_optimizer(config.optimizer, joined.size, config.precision, model, data.steps_per_epoch)
    variables = [*model.variables, *optimizer.variables()]
    progress = measure.Progress()
    kept = paths.checkpoints(run_dir) if run_dir and config.measure.epochs else None
    if kept:
        clock.enter("checkpoint")
        if joined.rank == 0:
            progress, found = checkpoint.restore(kept, variables, data.fingerprint)
            part.notes += found
        progress = joined.gather(progress)[0]

    def commit(done: measure.Progress) -> None:
        """After the last epoch there is nothing left to go on with."""
        if kept and len(done.epochs) < config.measure.epochs:
            clock.enter("checkpoint")
            if joined.rank == 0:
                checkpoint.save(kept, done, variables, data.fingerprint)

    clock.enter("broadcast")
    joined.broadcast(variables)
    tf.test.experimental.sync_devices()
    train_step = step.make_train_step(model, optimizer, joined, config.optimizer.label_smoothing)
    if config.measure.epochs:
        return measure.train_epochs(
            train_step,
            step.make_evaluation_step(model),
            model,
            data,
            config.measure.epochs,
            joined,
            clock,
            progress=progress,
            commit=commit,
            ordered=config.dataset.ordered,
        )
    return measure.time_steps(
        train_step, data, config.measure.warm_up_steps, config.measure.timed_steps, joined, clock, limits
    )
