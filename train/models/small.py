"""Three small models, not from a paper: `tiny` for tests, the others learn handwritten digits on a CPU.

`tiny` and `digits_cnn` have batch normalisation, and so moving statistics, which no gradient updates. `digits_plain`
has none: its step depends only on the samples of the global batch, however ranks share them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tf_keras


def tiny(*, image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """Return a model of one convolution of 8 filters. Images of any size."""
    import tf_keras
    from tf_keras import layers

    stack = [
        layers.Input((image_size, image_size, channels)),
        layers.Conv2D(8, 3, 2, "same", use_bias=False),
        layers.BatchNormalization(),
        layers.ReLU(),
        layers.GlobalAveragePooling2D(),
        layers.Dense(classes),
    ]
    return tf_keras.Sequential(stack, name="tiny")


def digits_cnn(*, image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """Return a model of three convolutions, each halving the image; the comment is for 32x32. Any size."""
    import tf_keras
    from tf_keras import layers

    model = tf_keras.Sequential([layers.Input((image_size, image_size, channels))], name="digits_cnn")
    for filters in (16, 32, 64):  # 16 x 16, 8 x 8, 4 x 4
        model.add(layers.Conv2D(filters, 3, 2, "same", use_bias=False))
        # The digits have a few tens of steps per epoch: the default momentum, 0.99, averages over too many.
        model.add(layers.BatchNormalization(momentum=0.9))
        model.add(layers.ReLU())
    model.add(layers.Flatten())
    model.add(layers.Dropout(0.25))
    model.add(layers.Dense(classes))
    return model


def digits_plain(*, image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """Return `digits_cnn` without batch normalisation and dropout. Any size."""
    import tf_keras
    from tf_keras import layers

    model = tf_keras.Sequential([layers.Input((image_size, image_size, channels))], name="digits_plain")
    for filters in (16, 32, 64):
        model.add(layers.Conv2D(filters, 3, 2, "same", activation="relu"))
    model.add(layers.Flatten())
    model.add(layers.Dense(classes))
    return model


MODELS = {"tiny": tiny, "digits_cnn": digits_cnn, "digits_plain": digits_plain}
