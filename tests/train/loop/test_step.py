import math
import time

import numpy as np
import pytest

from tests.helpers.lazy import Lazy
from train.config.compose import load
from train.distribution import Single
from train.models import build

pytestmark = pytest.mark.slow

step, tf, tf_keras = Lazy("train.loop.step"), Lazy("tensorflow"), Lazy("tf_keras")


def linear_model():
    """One weight a class, no bias: two inputs, two classes, all weights 0 at first."""
    images = tf_keras.layers.Input((1, 1, 2))
    logits = tf_keras.layers.Dense(2, use_bias=False, kernel_initializer="zeros")(tf_keras.layers.Flatten()(images))
    return tf_keras.Model(images, logits)


def two_images():
    """Input (1, 0) of class 0 and (0, 2) of class 1."""
    return tf.reshape(tf.constant([[1.0, 0.0], [0.0, 2.0]]), (2, 1, 1, 2)), tf.constant([0, 1])


# Logits 0, 0: probabilities 1/2 each, loss ln 2. The gradient of the loss is (p - onehot) x the input, mean over the
# batch:
#   for input 1: (1/2 - 1, 1/2) x 1 / 2 images = (-1/4, 1/4);  for input 2: (1/2, 1/2 - 1) x 2 / 2 = (1/2, -1/2)
UPDATE = np.array([[0.025, -0.025], [-0.05, 0.05]])  # of one step at the rate of `sgd`


def sgd(*more, ranks=1, precision="fp32", steps_per_epoch=None):
    """The model, and its optimizer: SGD without momentum at the rate 0.1."""
    settings = load(["optimizer.learning_rate=0.1", "optimizer.momentum=0", *more]).optimizer
    model = linear_model()
    return model, step.make_optimizer(settings, ranks, precision, model, steps_per_epoch)


class Exchanging(Single):
    """Stands in for an allreduce of two ranks by a function of the gradients."""

    def __init__(self, exchange):
        self.exchange = exchange


@pytest.mark.parametrize(("precision", "passes"), [("fp32", 1), ("fp32", 2), ("fp16", 2)])
def test_one_step_worked_by_hand_and_in_passes_over_parts_of_the_batch(precision, passes):
    exchanged = []

    def record(tensors, variables):
        exchanged.append(tensors)
        return tensors

    model, optimizer = sgd(precision=precision)
    [train_step] = step.make_train_steps(model, optimizer, [Exchanging(record)], passes=passes)
    begun_at = time.time()
    loss, correct, computed_at = train_step(*two_images())
    assert begun_at < float(computed_at) < time.time()
    assert float(loss) == pytest.approx(math.log(2))
    assert float(correct) == 1  # argmax of equal logits is class 0
    np.testing.assert_allclose(model.get_weights()[0], UPDATE, rtol=1e-6 if precision == "fp32" else 1e-3)
    assert len(exchanged) == 1


def test_steps_that_differ_in_their_exchange_are_traced_once():
    # The step worked by hand above; an exchange that doubles the gradients moves the weights twice as far.
    traced = []

    class Watched(Single):
        def on_devices(self, function, *batch):
            traced.append(batch)
            return super().on_devices(function, *batch)

    doubling = Exchanging(lambda tensors, variables: [2.0 * tensor for tensor in tensors])
    model, optimizer = sgd(precision="fp16")
    local, doubled = step.make_train_steps(model, optimizer, [Watched(), doubling])
    for train_step, factor in ((local, 1.0), (doubled, 2.0), (local, 1.0)):
        model.set_weights([np.zeros((2, 2), np.float32)])
        loss, correct, _ = train_step(*two_images())
        assert (float(loss), float(correct)) == (pytest.approx(math.log(2)), 1)
        np.testing.assert_allclose(model.get_weights()[0], factor * UPDATE, rtol=1e-3)
    assert len(traced) == 1


def test_the_warm_up_rises_evenly_from_one_rank_s_rate_to_that_of_all():
    # 4 ranks, 0.1 x 4 = 0.4 after 8 steps (2 epochs of 4): each step adds (0.4 - 0.1) / 8 = 0.0375.
    warm_up = step.warm_up(0.4, 4, 8)
    rates = [float(warm_up(number)) for number in (0, 1, 4, 8, 100)]
    assert rates == pytest.approx([0.1, 0.1375, 0.25, 0.4, 0.4])


def test_the_compiled_step_warms_up_by_itself():
    # The first update of SGD without momentum is rate x gradient: at 2 ranks' rate 0.2, begun at 0.1, the weights are
    # those of the test above. The gradient of the second is a little smaller; its rate is (0.1 + 0.2) / 2.
    warm_up = ("dataset=digits", "optimizer.warm_up_epochs=0.5", "optimizer.learning_rate_scaling=linear")
    model, optimizer = sgd(*warm_up, ranks=2, steps_per_epoch=4)
    [train_step] = step.make_train_steps(model, optimizer, [Single()])
    train_step(*two_images())
    first = model.get_weights()[0]
    np.testing.assert_allclose(first, UPDATE, rtol=1e-3)
    train_step(*two_images())
    # Input 1: p = 1 / (1 + e^0.05), gradient -p / 2; the first weight grows by 0.15 x p / 2.
    grown = 0.15 / 2 / (1 + math.exp(2 * 0.025))
    assert model.get_weights()[0][0, 0] - first[0, 0] == pytest.approx(grown, rel=1e-3)


def test_label_smoothing_changes_the_gradient_and_not_the_reported_loss():
    # Two classes, s = 0.2: the target is (0.9, 0.1). Input (1, 0) of class 0 alone, p = (1/2, 1/2): the gradient is
    # (1/2 - 0.9, 1/2 - 0.1) = (-0.4, 0.4), the loss without smoothing ln 2.
    model, optimizer = sgd()
    [train_step] = step.make_train_steps(model, optimizer, [Single()], 0.2)
    loss, *_ = train_step(tf.reshape(tf.constant([1.0, 0.0]), (1, 1, 1, 2)), tf.constant([0]))
    assert float(loss) == pytest.approx(math.log(2))
    np.testing.assert_allclose(model.get_weights()[0], [[0.04, -0.04], [0, 0]], atol=1e-7)


@pytest.mark.parametrize(("name", "precision"), [("sgd", "fp32"), ("adam", "fp16")])
def test_weight_decay_spares_biases_and_normalisation(name, precision):
    # With gradients of 0 only the decay is left: a weight shrinks by 0.5 x 0.1, to 0.95 of itself.
    layers = tf_keras.layers
    model = tf_keras.Sequential([layers.Input((2,)), layers.Dense(2), layers.BatchNormalization()])
    for variable in model.trainable_variables:
        variable.assign(tf.ones_like(variable))
    choice = [f"optimizer={name}", "optimizer.learning_rate=0.5", "optimizer.weight_decay=0.1"]
    optimizer = step.make_optimizer(load(choice).optimizer, 1, precision, model, None)
    optimizer.apply_gradients([(tf.zeros_like(variable), variable) for variable in model.trainable_variables])
    kernel, *spared = (variable.numpy() for variable in model.trainable_variables)
    np.testing.assert_allclose(kernel, 0.95, rtol=1e-6)
    for values in spared:  # bias, scale, shift
        np.testing.assert_array_equal(values, 1.0)


def test_evaluation_leaves_padding_out():
    evaluation_step = step.make_evaluation_step(linear_model(), Single())
    images = tf.ones((3, 1, 1, 2))
    sums, answers, probabilities = evaluation_step(images, tf.constant([0, 1, 0]), tf.constant([1.0, 1.0, 0.0]))
    # Both classes at one half: the expected class is 0.5, half a class from either label.
    np.testing.assert_allclose(sums, [2 * math.log(2), 1, 2, 2 * 0.5], rtol=1e-6)
    np.testing.assert_array_equal(answers, [0, 0, 0])
    np.testing.assert_allclose(probabilities, 0.5, rtol=1e-6)


@pytest.mark.parametrize("precision", ["fp32", "bf16", "fp16"])
def test_training_lowers_the_loss_in_every_precision(precision):
    tf_keras.utils.set_random_seed(0)
    tf_keras.mixed_precision.set_global_policy(step.POLICIES[precision])
    try:
        model = build("tiny", 16, 1, 4)
        optimizer = step.make_optimizer(load(["optimizer.learning_rate=0.05"]).optimizer, 1, precision, model, None)
        [train_step] = step.make_train_steps(model, optimizer, [Single()])
        images, labels = tf.random.normal((8, 16, 16, 1), seed=1), tf.constant([0, 1, 2, 3] * 2)
        losses = [float(train_step(images, labels)[0]) for _ in range(100)]
    finally:
        tf_keras.mixed_precision.set_global_policy("float32")
    assert losses[-1] < 0.5 * losses[0]


def test_an_exchange_by_itself_has_tensors_like_the_gradients_and_changes_nothing():
    exchanged = []

    def double(tensors, variables):
        exchanged.append([tuple(tensor.shape) for tensor in tensors])
        return [2.0 * tensor for tensor in tensors]

    model = linear_model()
    model.set_weights([np.array([[3.0, 1.0], [2.0, 5.0]])])
    exchange = step.make_exchange_step(model, Exchanging(double))
    assert float(exchange()) == 6.0  # of the first element of each mean
    assert exchanged == [[(2, 2)]]
    np.testing.assert_array_equal(model.get_weights()[0], [[3.0, 1.0], [2.0, 5.0]])
