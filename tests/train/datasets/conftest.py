"""What the tests of the datasets share: small sets in the true layouts, and what ranks read of them."""

import os
from collections.abc import Callable, Iterable
from pathlib import Path

# As the ranks set them, before TensorFlow is imported.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import pytest
from PIL import Image

from train.config.compose import load
from train.config.schema import RunConfig
from train.datasets import DATASETS
from train.input.reader import Reader

SIZE = 16


@pytest.fixture
def configure() -> Callable[..., RunConfig]:
    """The configuration of one dataset in a folder, at 16 x 16 pixels, without augmentation unless asked for."""

    def compose(dataset: str, folder: Path, *overrides: str, augmented: bool = False) -> RunConfig:
        return load(
            [
                f"dataset={dataset}",
                f"dataset.data_dir={folder}",
                "model=tiny",
                f"model.image_size={SIZE}",
                "batch_per_rank=2",
                *(overrides if augmented else ("dataset.augmentation=null", *overrides)),
            ]
        )

    return compose


@pytest.fixture
def readers() -> Callable[[RunConfig], list[Reader]]:
    """The dataset as each rank of a job opens it."""
    return lambda config: [DATASETS[config.dataset.name](config, rank) for rank in range(config.ranks)]


@pytest.fixture
def picture() -> Callable[..., None]:
    """Write an image of one colour; its suffix says the format."""

    def write(path: Path, colour: tuple[int, int, int], size: tuple[int, int] = (20, 24)) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        quality = {} if path.suffix == ".png" else {"quality": 95}
        Image.new("RGB", size, colour).save(path, **quality)

    return write


class Seen:
    """What a rank read: the colour of each image's first pixel, 0 to 255, its label, and its weight if it has one."""

    def __init__(self, batches: Iterable[tuple]) -> None:
        self.colours, self.labels, self.weights = [], [], []
        for images, labels, *weights in batches:
            self.colours += [tuple(int(level) for level in pixel) for pixel in np.rint(images.numpy()[:, 0, 0] * 255)]
            self.labels += labels.numpy().tolist()
            self.weights += [float(weight) for part in weights for weight in part.numpy()]


@pytest.fixture
def seen() -> type[Seen]:
    return Seen
