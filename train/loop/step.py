"""The training step and the evaluation step, without input and output."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import tensorflow as tf
import tf_keras

from record.recorded_config import scaled_learning_rate
from train.config.training_config import OptimizerConfig as OptimizerSettings
from train.distribution import Distribution

Results = tuple[tf.Tensor, tf.Tensor, tf.Tensor]
TrainStep = Callable[[tf.Tensor, tf.Tensor], Results]
ExchangeStep = Callable[[], tf.Tensor]
EvaluationStep = Callable[[tf.Tensor, tf.Tensor, tf.Tensor], Results]

POLICIES = {"fp32": "float32", "bf16": "mixed_bfloat16", "fp16": "mixed_float16"}


def warm_up(rate: float, batches: int, steps: int) -> tf_keras.optimizers.schedules.LearningRateSchedule:
    """Return a learning rate that rises by the same amount at each of the first `steps` steps, and then stays.

    It begins at rate / batches, that of one batch with linear scaling: Goyal et al. 2017 (1706.02677), section 2.2.
    It is part of the compiled step: nothing is transferred from the host.
    """
    return tf_keras.optimizers.schedules.PolynomialDecay(rate / batches, steps, end_learning_rate=rate)


def make_optimizer(
    settings: OptimizerSettings, batches: int, precision: str, model: tf_keras.Model, steps_per_epoch: int
) -> tf_keras.optimizers.Optimizer:
    """Return the optimizer with its state for `model`. With fp16 it scales the loss: gradients would underflow.

    batches: of a step, one for each rank and each of its backward passes.

    Weight decay is decoupled from the gradient (Loshchilov and Hutter 2019, 1711.05101), and not applied to variables
    of one dimension: biases, scales and shifts of normalisation (He et al. 2018, 1812.01187, section 3.1).
    """
    rate = scaled_learning_rate(settings.learning_rate, settings.learning_rate_scaling, batches)
    if settings.warm_up_epochs and batches > 1:
        rate = warm_up(rate, batches, max(1, round(settings.warm_up_epochs * steps_per_epoch)))
    decay = settings.weight_decay or None
    if settings.name == "sgd":
        optimizer = tf_keras.optimizers.SGD(rate, momentum=settings.momentum, weight_decay=decay)
    elif settings.name == "adadelta":
        optimizer = tf_keras.optimizers.Adadelta(rate, rho=settings.momentum, weight_decay=decay)
    else:
        optimizer = tf_keras.optimizers.Adam(rate, beta_1=settings.momentum, weight_decay=decay)
    optimizer.exclude_from_weight_decay([variable for variable in model.trainable_variables if len(variable.shape) < 2])
    if precision == "fp16":
        optimizer = tf_keras.mixed_precision.LossScaleOptimizer(optimizer)
    optimizer.build(model.trainable_variables)
    return optimizer


@dataclass(frozen=True)
class _Pass:
    """A forward and a backward pass over one batch, or the mean of several, on a device of this rank, or on all."""

    loss: tf.Tensor  # without smoothing
    correct: tf.Tensor  # answers, summed
    gradients: list[tf.Tensor]  # of the objective, one for each trainable variable


Pass = Callable[[tf.Tensor, tf.Tensor], _Pass]


def _make_pass(model: tf_keras.Model, optimizer: tf_keras.optimizers.Optimizer, label_smoothing: float) -> Pass:
    """Return the pass over one batch, for use within a compiled function."""
    # Within a strategy of TensorFlow tf_keras does not reduce a loss: it does not know over which ranks.
    cross_entropy = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")
    scales_loss = isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer)

    def run_pass(images: tf.Tensor, labels: tf.Tensor) -> _Pass:
        with tf.GradientTape() as tape:
            logits = model(images, training=True)  # (batch, classes), float32
            loss = tf.reduce_mean(cross_entropy(labels, logits))
            objective = loss
            if label_smoothing:
                to_all_classes = -tf.reduce_mean(tf.nn.log_softmax(logits))
                objective = (1.0 - label_smoothing) * loss + label_smoothing * to_all_classes
            objective = tf.add_n([objective, *model.losses]) if model.losses else objective
            if scales_loss:
                objective = optimizer.get_scaled_loss(objective)
        gradients = tape.gradient(objective, model.trainable_variables)
        return _Pass(loss, _correct(labels, logits, tf.ones_like(labels, tf.float32)), gradients)

    return run_pass


def _mean_of_passes(
    run_pass: Pass, passes: int, images: tf.Tensor, labels: tf.Tensor, variables: Sequence[tf.Variable]
) -> _Pass:
    """Return the mean over equal parts of a batch, computed in turn: only one part needs memory at a time."""
    parts = tf.reshape(images, [passes, -1, *images.shape[1:]])  # (passes, batch, size, size, channels)
    label_parts = tf.reshape(labels, [passes, -1])

    def add(number: tf.Tensor, *sums: tf.Tensor) -> list[tf.Tensor]:
        part = run_pass(parts[number], label_parts[number])
        return [number + 1, *(a + b for a, b in zip(sums, (part.loss, part.correct, *part.gradients), strict=True))]

    zeros = [tf.zeros(()), tf.zeros(()), *(tf.zeros(variable.shape, variable.dtype) for variable in variables)]
    _, loss, correct, *gradients = tf.while_loop(
        lambda number, *sums: number < passes, add, [tf.constant(0), *zeros], parallel_iterations=1
    )
    return _Pass(loss / passes, correct, [gradient / passes for gradient in gradients])


def _mean(passes: Sequence[_Pass]) -> _Pass:
    """Return the mean over equal parts of a batch, which several devices computed."""
    count = len(passes)
    if count == 1:
        return passes[0]
    gradients = [tf.add_n(same) / count for same in zip(*(part.gradients for part in passes), strict=True)]
    loss = tf.add_n([part.loss for part in passes]) / count
    return _Pass(loss, tf.add_n([part.correct for part in passes]), gradients)


def make_train_steps(
    model: tf_keras.Model,
    optimizer: tf_keras.optimizers.Optimizer,
    distributions: Sequence[Distribution],
    label_smoothing: float = 0.0,
    passes: int = 1,
) -> list[TrainStep]:
    """Return compiled steps: images, labels -> local mean loss, correct answers, time when the gradients were ready.

    All are scalars; the time, of the local gradients, is in seconds since the epoch.

    One for each distribution, which differ in the exchange alone. They are one compiled function, traced and optimised
    once, with a number as argument that chooses the exchange. The distributions are groups of one distribution, whose
    names of tensors do not depend on their position in a graph.

    They apply the gradients of the whole job to `model`. With label smoothing s the target is 1 - s for the label plus
    s / classes for every class (Szegedy et al. 2015, 1512.00567, section 7); the loss that is returned is the one
    without smoothing, so that runs with and without can be compared.

    With several passes each takes its equal share of the images, and the mean of their gradients is exchanged once. So
    it is the same step as with one pass, but for layers that depend on the batch, as normalisation does.

    Only the step itself knows when the local gradients are ready: from outside all ranks are as slow as the slowest.
    On a GPU that is the time of the last kernel's launch, which means nothing.
    """
    run_pass = _make_pass(model, optimizer, label_smoothing)
    scales_loss = isinstance(optimizer, tf_keras.mixed_precision.LossScaleOptimizer)

    def train_step(images: tf.Tensor, labels: tf.Tensor, chosen: tf.Tensor | None = None) -> Results:
        variables = model.trainable_variables

        def on_device(images: tf.Tensor, labels: tf.Tensor) -> _Pass:
            if passes == 1:
                return run_pass(images, labels)
            return _mean_of_passes(run_pass, passes, images, labels, variables)

        results = distributions[0].on_devices(on_device, images, labels)
        with tf.control_dependencies([gradient for result in results for gradient in result.gradients]):
            computed_at = tf.timestamp()
        local = _mean(results)
        exchanges = [partial(ranks.exchange, local.gradients, variables) for ranks in distributions]
        gradients = exchanges[0]() if chosen is None else tf.switch_case(chosen, exchanges)
        if scales_loss:
            gradients = optimizer.get_unscaled_gradients(gradients)
        # They are those of the job already: a strategy of TensorFlow would add them up once more.
        optimizer.apply_gradients(zip(gradients, variables, strict=True), skip_gradients_aggregation=True)
        return local.loss, local.correct, computed_at

    compiled = distributions[0].compiled(train_step)
    if len(distributions) == 1:
        return [compiled]
    return [partial(compiled, chosen=tf.constant(number)) for number in range(len(distributions))]


def make_exchange_step(model: tf_keras.Model, distribution: Distribution) -> ExchangeStep:
    """Return a compiled exchange of tensors like the gradients of `model`, by itself, as the training step makes it.

    The values of the variables stand in for their gradients: they have the same sizes. It returns a number that depends
    on all the means: else TensorFlow would leave the exchange out. `model` does not change.
    """

    def exchange_step() -> tf.Tensor:
        variables = model.trainable_variables
        means = distribution.exchange([variable.value() for variable in variables], variables)
        return tf.add_n([tf.cast(tf.reshape(mean, [-1])[0], tf.float32) for mean in means])

    return distribution.compiled(exchange_step)


def make_evaluation_step(model: tf_keras.Model, distribution: Distribution) -> EvaluationStep:
    """Return a compiled step: images, labels, weights -> sums (4,), answers (batch,), their probabilities (batch,).

    The sums over the batch: loss, correct, weight, and the absolute error of the expected class, which is the mean of
    the class numbers weighted with the probabilities of the classes (Rothe et al. 2018, section 3.3).
    """
    cross_entropy = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True, reduction="none")

    def on_device(images: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        logits = model(images, training=False)  # (batch, classes), float32
        losses = cross_entropy(labels, logits) * weights  # (batch,)
        probabilities = tf.nn.softmax(logits)
        expected = tf.linalg.matvec(probabilities, tf.range(logits.shape[-1], dtype=tf.float32))  # (batch,)
        errors = tf.abs(expected - tf.cast(labels, tf.float32)) * weights
        correct = _correct(labels, logits, weights)
        sums = tf.stack([tf.reduce_sum(losses), correct, tf.reduce_sum(weights), tf.reduce_sum(errors)])
        return sums, tf.argmax(logits, axis=-1, output_type=tf.int32), tf.reduce_max(probabilities, axis=-1)

    def evaluation_step(images: tf.Tensor, labels: tf.Tensor, weights: tf.Tensor) -> Results:
        sums, answers, probabilities = zip(*distribution.on_devices(on_device, images, labels, weights), strict=True)
        return tf.add_n(sums), tf.concat(answers, 0), tf.concat(probabilities, 0)

    return distribution.compiled(evaluation_step)


def _correct(labels: tf.Tensor, logits: tf.Tensor, weights: tf.Tensor) -> tf.Tensor:
    hits = tf.equal(tf.argmax(logits, axis=-1, output_type=tf.int32), tf.cast(labels, tf.int32))
    return tf.reduce_sum(tf.cast(hits, tf.float32) * weights)
