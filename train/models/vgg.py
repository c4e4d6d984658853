"""VGG: Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition, 2014 (1409.1556).

Configurations D (VGG16) and E (VGG19), without the dropout of the paper, as tf_keras.applications has them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tf_keras


def vgg16(*, image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """Configuration D. Images of at least 32x32."""
    from tf_keras.applications import VGG16

    shape = (image_size, image_size, channels)
    return VGG16(weights=None, input_shape=shape, classes=classes, classifier_activation=None)


def vgg19(*, image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """Configuration E. Images of at least 32x32."""
    from tf_keras.applications import VGG19

    shape = (image_size, image_size, channels)
    return VGG19(weights=None, input_shape=shape, classes=classes, classifier_activation=None)


MODELS = {"vgg16": vgg16, "vgg19": vgg19}
