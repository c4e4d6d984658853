"""ResNet: He et al., Deep Residual Learning for Image Recognition, 2015 (1512.03385), and its second version.

As tf_keras.applications has them: bottleneck blocks whose first 1x1 convolution carries the stride.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tf_keras


def resnet50(*, image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """Version 1, 50 layers. Images of at least 32x32."""
    from tf_keras.applications import ResNet50

    shape = (image_size, image_size, channels)
    return ResNet50(weights=None, input_shape=shape, classes=classes, classifier_activation=None)


def resnet101v2(*, image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """Version 2, 101 layers, normalisation before convolution: Identity Mappings, 2016 (1603.05027). At least 32x32."""
    from tf_keras.applications import ResNet101V2

    shape = (image_size, image_size, channels)
    return ResNet101V2(weights=None, input_shape=shape, classes=classes, classifier_activation=None)


MODELS = {"resnet50": resnet50, "resnet101v2": resnet101v2}
