"""Initial weights: ImageNet's, which tf_keras.applications downloads and verifies, or those of a file."""

from __future__ import annotations

import importlib
import re
from pathlib import Path
from typing import TYPE_CHECKING

from record.run_files import digest
from train.config.checks import ConfigError
from train.config.run_config import RunConfig
from train.models import build
from train.models.applications import PRETRAINED

if TYPE_CHECKING:
    import tf_keras

NONE, IMAGENET = "none", "imagenet"


def _folder() -> Path:
    """Return the cache of tf_keras: it looks there before it downloads."""
    return Path("~/.keras/models").expanduser()


def _imagenet(config: RunConfig) -> tf_keras.Model:
    """Return the network without its classifier, with the published weights. Raises ConfigError without them."""
    module, name = PRETRAINED[config.model.name]
    application = getattr(importlib.import_module(f"tf_keras.applications.{module}"), name)
    size = config.model.image_size
    _folder().mkdir(parents=True, exist_ok=True)  # else tf_keras would use /tmp, which other hosts do not share
    try:
        return application(weights=IMAGENET, include_top=False, input_shape=(size, size, config.dataset.channels))
    except Exception as error:  # tf_keras raises a bare Exception if a download fails
        url = re.search(r"https?://\S+[^\s:]", str(error))
        if url is None:
            raise ConfigError(
                f"weights=imagenet: {error}. Remove the damaged file in {_folder()}, and try again"
            ) from error
        file = url[0].rpartition("/")[2]
        raise ConfigError(
            f"weights=imagenet: {url[0]} cannot be downloaded ({str(error).rpartition('--')[2].strip()}). "
            f"Download it on another machine and put it at {_folder() / file}"
        ) from error


def _file(config: RunConfig) -> Path:
    path = Path(config.weights).expanduser()
    if not path.is_file():
        raise ConfigError(
            f"weights={config.weights}: no such file; allowed are none, imagenet ({', '.join(sorted(PRETRAINED))}), "
            "and an HDF5 file of weights, as tf_keras' save_weights writes it (.h5)"
        )
    return path


def _read(path: Path, model: tf_keras.Model) -> None:
    """Load a file with all weights of the model. Raises ConfigError if it is damaged, or of another model."""
    try:
        model.load_weights(path)
    except Exception as error:  # h5py and tf_keras raise many types for damaged files
        raise ConfigError(f"weights={path}: not the weights of model={model.name}: {error}") from error


def start(model: tf_keras.Model, config: RunConfig, *, load: bool) -> tf_keras.Model:
    """Return the model that training starts from. ImageNet's classifier is not used: the model's own is initialised.

    ImageNet's weights expect the range and the order of colours that they were trained with: tf_keras'
    preprocess_input, as part of the model, converts the images, 0 to 1. Weights of a file get the images unchanged.

    load: False if the values come from another rank.
    Raises ConfigError if the weights are not available, or belong to another model.
    """
    import tf_keras

    if config.weights == NONE:
        return model
    if config.weights != IMAGENET:
        if load:
            _read(_file(config), model)
        return model
    if load:
        for variable, published in zip(model.weights, _imagenet(config).weights, strict=False):  # not the classifier's
            variable.assign(published)
    module = importlib.import_module(f"tf_keras.applications.{PRETRAINED[config.model.name][0]}")
    images = tf_keras.layers.Input(model.input.shape[1:])
    prepared = tf_keras.layers.Lambda(
        lambda pixels: module.preprocess_input(255.0 * pixels), name="preprocess", dtype="float32"
    )(images)
    return tf_keras.Model(images, model(prepared), name=config.model.name)


def describe(config: RunConfig) -> str:
    """Return the origin of the weights, for the record."""
    if config.weights == IMAGENET:
        return "starts from the weights of ImageNet that tf_keras.applications verified; the classifier is initialised"
    path = _file(config)
    return f"starts from the weights in {path}, sha256 {digest(path)}"


def fetched_weights(config: RunConfig) -> str:
    """Download the weights, once for all ranks, and check that they fit; returns their origin. Raises ConfigError."""
    dataset, model = config.dataset, config.model
    start(build(model.name, model.image_size, dataset.channels, dataset.classes), config, load=True)
    return describe(config)
