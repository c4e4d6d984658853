"""Training on one rank, from the data to the weights: import it after TensorFlow has its threads and its GPU set."""

import tf_keras

from train import distribution
from train.config.checks import ConfigError
from train.datasets import DATASETS, Data
from train.loop import rank_timeline, roofline, step, weights
from train.loop.arms import window_runner
from train.loop.devices import synchronize_devices
from train.loop.epochs import Progress, restore_checkpoint, save_checkpoint, train_epochs
from train.loop.learner import Learner
from train.loop.run_rounds import measure_rounds
from train.loop.timed_steps import endless, run_steps, time_steps
from train.models import build, freeze_below_classifier
from train.predictions import Predictions
from train.task import Context


def train(context: Context) -> Predictions | None:
    """Build, train and evaluate on this rank; measurements are recorded at once.

    Returns the model's answers at the end, if there are any.
    Raises ConfigError, NotFinite, PeerLost, or what TensorFlow and Horovod raise.
    """
    context.clock.enter("data")
    data = DATASETS[context.config.dataset.name](context.config, context.distribution.rank)
    if data.fingerprint and len(set(context.distribution.gather(data.fingerprint, str))) > 1:
        data_dir = context.config.dataset.data_dir
        raise ConfigError(f"dataset.data_dir={data_dir}: the ranks find different samples in it")
    context.clock.enter("build")
    learner = Learner(context.config, context.distribution, data, make_model(context))
    predictions = _train(context, learner)
    _add_notes(context, data)
    _check_weights(context, learner.model)
    return predictions


def make_model(context: Context) -> tf_keras.Model:
    """Return the model with the weights that training starts from; on other ranks than 0 the broadcast sets them."""
    config = context.config
    tf_keras.utils.set_random_seed(config.seed)
    tf_keras.mixed_precision.set_global_policy(step.POLICIES[config.precision])
    with context.distribution.scope():
        model = build(config.model.name, config.model.image_size, config.dataset.channels, config.dataset.classes)
    if config.model.train_layers == "classifier":
        freeze_below_classifier(model)
    return weights.start(model, config, load=context.distribution.rank == 0)


def _train(context: Context, learner: Learner) -> Predictions | None:
    """Train as the configuration says: epochs, or timed steps."""
    progress = _restore(context, learner)
    context.clock.enter("broadcast")
    context.distribution.broadcast(learner.variables())
    synchronize_devices()
    roofline.record_work(context, learner)
    if context.config.measure.epochs:
        predictions = train_epochs(context, learner, progress, lambda reached: _save(context, learner, reached))
        context.clock.enter("evaluate")
        roofline.measure(context, context.distribution)
        return predictions
    if context.config.launch.rounds:
        context.clock.enter("first_step")
        measure_rounds(context, window_runner(context, learner))
    else:
        steps = time_steps(context, learner.train_step, learner.data)
        if context.config.distribution.timeline:
            batches = endless(learner.data)
            rank_timeline.record(context, steps, lambda count: run_steps(learner.train_step, batches, count))
    return None


def _restore(context: Context, learner: Learner) -> Progress:
    """Load the newest checkpoint into the variables of rank 0; return its progress, none without a checkpoint."""
    if context.checkpoints is None:
        return Progress()
    context.clock.enter("checkpoint")
    progress = Progress()
    if context.distribution.rank == 0:
        progress, notes = restore_checkpoint(context.checkpoints, learner.variables(), learner.data.fingerprint)
        context.part.add(notes=notes)
    return context.distribution.gather(progress, Progress)[0]


def _save(context: Context, learner: Learner, progress: Progress) -> None:
    """Write a checkpoint, but not after the last epoch: there is nothing to resume."""
    if context.checkpoints and len(progress.epochs) < context.config.measure.epochs:
        context.clock.enter("checkpoint")
        if context.distribution.rank == 0:
            save_checkpoint(context.checkpoints, progress, learner.variables(), learner.data.fingerprint)


def _add_notes(context: Context, data: Data) -> None:
    """Record, on rank 0, notes on weights and data for a reader of the results."""
    config, notes = context.config, []
    data_notes = dict.fromkeys(
        note for rank_notes in context.distribution.gather(list(data.notes), list[str]) for note in rank_notes
    )
    if context.distribution.rank != 0:
        return
    if config.towers > 1:
        notes.append(
            f"one process computed for all {config.ranks} ranks, each on its own device, which share its "
            f"{len(context.part.part.cores)} cores; variables on the CPU"
        )
    if config.weights != weights.NONE:
        notes.append(weights.describe(config))
    elif config.model.train_layers == "classifier":
        notes.append("the layers below the classifier stay random: the accuracies mean nothing")
    if data.dropped_samples:
        notes.append(f"{data.dropped_samples} samples an epoch left out: less than one global batch")
    context.part.add(notes=[*notes, *data_notes])


def _check_weights(context: Context, model: tf_keras.Model) -> None:
    """Record whether the ranks hold different weights, if each has its own. Raises RuntimeError if they do."""
    if context.config.distribution.allreduce and not context.config.distribution.in_one_process:
        differ = distribution.weights_differ(context.distribution, model.trainable_variables)
        context.part.add(weights_differ=differ)
        if differ:
            raise RuntimeError("the ranks hold different weights after training: gradients were not averaged")
