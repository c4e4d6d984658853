"""Models of papers, from tf_keras.applications."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tf_keras

    from train.models import ModelBuilder

# Each model's module of tf_keras.applications, and its name there. All of them have ImageNet weights. Inception 3 takes
# images of at least 75x75, the others of at least 32x32.
PRETRAINED = {
    # He et al., Deep Residual Learning for Image Recognition, 2015 (1512.03385): bottleneck blocks whose first 1x1
    # convolution carries the stride. Version 2: Identity Mappings, 2016 (1603.05027), normalisation before convolution.
    "resnet50": ("resnet", "ResNet50"),
    "resnet101v2": ("resnet_v2", "ResNet101V2"),
    # Simonyan and Zisserman, Very Deep Convolutional Networks for Large-Scale Image Recognition, 2014 (1409.1556):
    # configurations D and E, without the dropout of the paper.
    "vgg16": ("vgg16", "VGG16"),
    "vgg19": ("vgg19", "VGG19"),
    # Szegedy et al., 2015 (1512.00567), without the auxiliary head.
    "inceptionv3": ("inception_v3", "InceptionV3"),
}


def _builder(application: str) -> ModelBuilder:
    """Return the function that builds a model of tf_keras.applications with new random weights."""

    def build(*, image_size: int, channels: int, classes: int) -> tf_keras.Model:
        from tf_keras import applications

        shape = (image_size, image_size, channels)
        make = getattr(applications, application)
        return make(weights=None, input_shape=shape, classes=classes, classifier_activation=None)

    return build


MODELS = {name: _builder(application) for name, (_, application) in PRETRAINED.items()}
