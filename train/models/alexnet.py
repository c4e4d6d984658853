"""AlexNet, one tower: Krizhevsky, One weird trick for parallelizing convolutional neural networks, 2014 (1404.5997).

Its footnote gives 64, 192, 384, 384 and 256 filters. No grouped convolutions and no response normalisation: this is
the AlexNet of Google's tf_cnn_benchmarks, which the studies of 2017 and 2018 ran. The AlexNet of 2012 has two towers,
96, 256, 384, 384 and 256 filters in two groups, and 60,965,224 parameters.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tf_keras


def alexnet(*, image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """Return AlexNet, one tower; sizes in the comments are those at 227x227. Images of at least 67x67."""
    import tf_keras
    from tf_keras import layers

    stack = [
        layers.Input((image_size, image_size, channels)),
        layers.Conv2D(64, 11, 4, activation="relu"),  # 55 x 55: 224 pixels and 3 of padding are 227
        layers.MaxPooling2D(3, 2),  # 27 x 27
        layers.Conv2D(192, 5, padding="same", activation="relu"),
        layers.MaxPooling2D(3, 2),  # 13 x 13
        layers.Conv2D(384, 3, padding="same", activation="relu"),
        layers.Conv2D(384, 3, padding="same", activation="relu"),
        layers.Conv2D(256, 3, padding="same", activation="relu"),
        layers.MaxPooling2D(3, 2),  # 6 x 6
        layers.Flatten(),
        layers.Dense(4096, activation="relu"),
        layers.Dropout(0.5),
        layers.Dense(4096, activation="relu"),
        layers.Dropout(0.5),
        layers.Dense(classes),
    ]
    return tf_keras.Sequential(stack, name="alexnet")


MODELS = {"alexnet": alexnet}
