"""The models, by name. Every file here defines some in a mapping `MODELS`; docs/adding.md: how to add one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import tf_keras


class ModelBuilder(Protocol):
    """Builds one model for square images; TensorFlow is imported when it is called, not before."""

    def __call__(self, *, image_size: int, channels: int, classes: int) -> tf_keras.Model:
        """Return a model from (batch, image_size, image_size, channels) to logits (batch, classes)."""


def find(folders: Iterable[str]) -> dict[str, ModelBuilder]:
    """Return all models of the files in `folders`, the path of this package. Raises ValueError for a duplicate name."""
    models: dict[str, ModelBuilder] = {}
    owners: dict[str, str] = {}
    for file in pkgutil.iter_modules(folders):
        for name, builder in importlib.import_module(f"{__name__}.{file.name}").MODELS.items():
            if name in models:
                raise ValueError(
                    f"train/models/{file.name}.py: the name {name!r} is taken by train/models/{owners[name]}.py; "
                    "choose another one"
                )
            models[name], owners[name] = builder, file.name
    return models


MODELS: dict[str, ModelBuilder] = find(__path__)


def freeze_below_classifier(model: tf_keras.Model) -> None:
    """Freeze all layers of a built `model` but the dense ones.

    Frozen batch normalisation uses its moving statistics and does not update them (tf_keras, BatchNormalization).
    """
    import tf_keras

    for layer in model.layers:
        layer.trainable = isinstance(layer, tf_keras.layers.Dense)


def build(name: str, image_size: int, channels: int, classes: int) -> tf_keras.Model:
    """Return the model `name`, with new random weights.

    Maps images (batch, image_size, image_size, channels) to logits (batch, classes), which are float32 under every
    dtype policy: a loss of 16-bit logits would lose precision. The caller sets the policy.
    Raises ValueError for images the model cannot take, and if it does not return logits.
    """
    import tf_keras

    try:
        model = MODELS[name](image_size=image_size, channels=channels, classes=classes)
    except ValueError as error:
        raise ValueError(
            f"model.image_size={image_size}: {name} cannot be built for {image_size}x{image_size}x{channels} images; "
            f"conf/model/{name}.yaml has the published size. {error}"
        ) from error
    if tuple(model.output.shape) != (None, classes):
        raise ValueError(
            f"model.name={name!r}: returns shape {tuple(model.output.shape)}; "
            f"allowed: one logit a class, (None, {classes})"
        )
    if model.output.dtype != "float32":
        logits = tf_keras.layers.Activation("linear", dtype="float32", name="logits")(model.output)
        model = tf_keras.Model(model.input, logits, name=name)
    return model
