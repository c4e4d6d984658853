"""The first and the fourth of the Inception networks, by Szegedy et al.: GoogLeNet (2014) and Inception 4 (2016).

Inception 3 is in applications.py.
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
    """Return GoogLeNet, after table 1 of 1409.4842; sizes in comments are those at 224x224. Images of any size.

    Without the two auxiliary heads and without response normalisation, as in Google's tf_cnn_benchmarks, which the
    studies of 2017 and 2018 ran; with the paper's dropout. No batch normalisation: that came a year later.
    """
    import tf_keras
    from tf_keras import layers

    images = layers.Input((image_size, image_size, channels))
    x = _plain_conv(images, 64, 7, 2)  # 112 x 112
    x = layers.MaxPooling2D(3, 2, "same")(x)  # 56 x 56
    x = _plain_conv(x, 64, 1)
    x = _plain_conv(x, 192, 3)
    x = layers.MaxPooling2D(3, 2, "same")(x)  # 28 x 28; the blocks below end at 7 x 7 x 1024
    for filters in _BLOCKS:
        x = _inception_1(x, filters) if filters else layers.MaxPooling2D(3, 2, "same")(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.4)(x)
    return tf_keras.Model(images, layers.Dense(classes)(x), name="googlenet")


def _plain_conv(x: tf.Tensor, filters: int, kernel: int, strides: int = 1) -> tf.Tensor:
    from tf_keras import layers

    return layers.Conv2D(filters, kernel, strides, "same", activation="relu")(x)


def _inception_1(x: tf.Tensor, filters: tuple[int, int, int, int, int, int]) -> tf.Tensor:
    from tf_keras import layers

    conv_1, reduce_3, conv_3, reduce_5, conv_5, pool = filters
    return _concat(
        _plain_conv(x, conv_1, 1),
        _plain_conv(_plain_conv(x, reduce_3, 1), conv_3, 3),
        _plain_conv(_plain_conv(x, reduce_5, 1), conv_5, 5),
        _plain_conv(layers.MaxPooling2D(3, 1, "same")(x), pool, 1),
    )


def inceptionv4(*, image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """Return Inception 4, without auxiliary heads; sizes in comments are those at 299x299. At least 75x75.

    After figures 3 to 9 of 1602.07261. Every convolution is followed by batch normalisation with an offset and no
    scale, as in the authors' code, and ReLU.
    """
    import tf_keras
    from tf_keras import layers

    images = layers.Input((image_size, image_size, channels))
    x = _stem(images)  # 35 x 35 x 384
    for _ in range(4):
        x = _inception_a(x)
    x = _reduction_a(x)  # 17 x 17 x 1024
    for _ in range(7):
        x = _inception_b(x)
    x = _reduction_b(x)  # 8 x 8 x 1536
    for _ in range(3):
        x = _inception_c(x)
    x = layers.GlobalAveragePooling2D()(x)
    x = layers.Dropout(0.2)(x)
    return tf_keras.Model(images, layers.Dense(classes)(x), name="inceptionv4")


def _conv(x: tf.Tensor, filters: int, kernel: tuple[int, int], strides: int = 1, padding: str = "same") -> tf.Tensor:
    from tf_keras import layers

    x = layers.Conv2D(filters, kernel, strides, padding, use_bias=False)(x)
    x = layers.BatchNormalization(scale=False)(x)
    return layers.ReLU()(x)


def _concat(*branches: tf.Tensor) -> tf.Tensor:
    from tf_keras import layers

    return layers.Concatenate()(branches)


def _shrink(x: tf.Tensor) -> tf.Tensor:
    from tf_keras import layers

    return layers.MaxPooling2D(3, 2)(x)


def _pool_conv(x: tf.Tensor, filters: int) -> tf.Tensor:
    from tf_keras import layers

    return _conv(layers.AveragePooling2D(3, 1, "same")(x), filters, (1, 1))


def _stem(x: tf.Tensor) -> tf.Tensor:
    x = _conv(x, 32, (3, 3), 2, "valid")  # 149 x 149
    x = _conv(x, 32, (3, 3), padding="valid")  # 147 x 147
    x = _conv(x, 64, (3, 3))
    x = _concat(_shrink(x), _conv(x, 96, (3, 3), 2, "valid"))  # 73 x 73 x 160
    short = _conv(_conv(x, 64, (1, 1)), 96, (3, 3), padding="valid")
    long = _conv(_conv(_conv(x, 64, (1, 1)), 64, (7, 1)), 64, (1, 7))
    long = _conv(long, 96, (3, 3), padding="valid")
    x = _concat(short, long)  # 71 x 71 x 192
    return _concat(_conv(x, 192, (3, 3), 2, "valid"), _shrink(x))


def _inception_a(x: tf.Tensor) -> tf.Tensor:
    double = _conv(_conv(_conv(x, 64, (1, 1)), 96, (3, 3)), 96, (3, 3))
    return _concat(_pool_conv(x, 96), _conv(x, 96, (1, 1)), _conv(_conv(x, 64, (1, 1)), 96, (3, 3)), double)


def _reduction_a(x: tf.Tensor) -> tf.Tensor:
    double = _conv(_conv(_conv(x, 192, (1, 1)), 224, (3, 3)), 256, (3, 3), 2, "valid")
    return _concat(_shrink(x), _conv(x, 384, (3, 3), 2, "valid"), double)


def _inception_b(x: tf.Tensor) -> tf.Tensor:
    short = _conv(_conv(_conv(x, 192, (1, 1)), 224, (1, 7)), 256, (7, 1))
    long = _conv(_conv(_conv(x, 192, (1, 1)), 192, (1, 7)), 224, (7, 1))
    long = _conv(_conv(long, 224, (1, 7)), 256, (7, 1))
    return _concat(_pool_conv(x, 128), _conv(x, 384, (1, 1)), short, long)


def _reduction_b(x: tf.Tensor) -> tf.Tensor:
    short = _conv(_conv(x, 192, (1, 1)), 192, (3, 3), 2, "valid")
    long = _conv(_conv(_conv(x, 256, (1, 1)), 256, (1, 7)), 320, (7, 1))
    return _concat(_shrink(x), short, _conv(long, 320, (3, 3), 2, "valid"))


def _inception_c(x: tf.Tensor) -> tf.Tensor:
    short = _conv(x, 384, (1, 1))
    long = _conv(_conv(_conv(x, 384, (1, 1)), 448, (1, 3)), 512, (3, 1))
    forks = [_conv(branch, 256, kernel) for branch in (short, long) for kernel in ((1, 3), (3, 1))]
    return _concat(_pool_conv(x, 256), _conv(x, 256, (1, 1)), *forks)


MODELS = {"googlenet": googlenet, "inceptionv4": inceptionv4}
