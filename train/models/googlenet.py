"""GoogLeNet: Szegedy et al., Going Deeper with Convolutions, 2014 (1409.4842), after its table 1.

Without the two auxiliary heads and without response normalisation, as in Google's tf_cnn_benchmarks, which the studies
of 2017 and 2018 ran; with the paper's dropout. No batch normalisation: that came a year later.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tensorflow as tf
    import tf_keras

# Filters of the 1x1, 3x3 reduce, 3x3, 5x5 reduce, 5x5 and pool projection of each block; None: max pooling, stride 2.
_BLOCKS = (
    (64, 96, 128, 16, 32, 32),  # 3a
    (128, 128, 192, 32, 96, 64),  # 3b
    None,
    (192, 96, 208, 16, 48, 64),  # 4a
    (160, 112, 224, 24, 64, 64),  # 4b
    (128, 128, 256, 24, 64, 64),  # 4c
    (112, 144, 288, 32, 64, 64),  # 4d
    (256, 160, 320, 32, 128, 128),  # 4e
    None,
    (256, 160, 320, 32, 128, 128),  # 5a
    (384, 192, 384, 48, 128, 128),  # 5b
)


def googlenet(*, image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """Return GoogLeNet; sizes in the comments are those at 224x224. Images of any size."""
    import tf_keras
    from tf_keras import layers

    images = layers.Input((image_size, image_size, channels))
    x = _conv(images, 64, 7, 2)  # 112 x 112
    x = layers.MaxPooling2D(3, 2, "same")(x)  # 56 x 56
    x = _conv(x, 64, 1)
    x = _conv(x, 192, 3)
    x = layers.MaxPooling2D(3, 2, "same")(x)  # 28 x 28; the blocks below end at 7 x 7 x 1024
    for filters in _BLOCKS:
        x = _inception(x, filters) if filters else layers.MaxPooling2D(3, 2, "same")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.4)(x)
    return tf_keras.Model(images, layers.Dense(classes)(x), name="googlenet")


def _conv(x: tf.Tensor, filters: int, kernel: int, strides: int = 1) -> tf.Tensor:
    from tf_keras import layers

    return layers.Conv2D(filters, kernel, strides, "same", activation="relu")(x)


def _inception(x: tf.Tensor, filters: tuple[int, int, int, int, int, int]) -> tf.Tensor:
    from tf_keras import layers

    one, to_three, three, to_five, five, pool = filters
    pooled = layers.MaxPooling2D(3, 1, "same")(x)
    branches = [
        _conv(x, one, 1),
        _conv(_conv(x, to_three, 1), three, 3),
        _conv(_conv(x, to_five, 1), five, 5),
        _conv(pooled, pool, 1),
    ]
    return layers.Concatenate()(branches)


MODELS = {"googlenet": googlenet}
