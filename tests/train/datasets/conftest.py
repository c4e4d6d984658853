"""What the tests of the datasets share: small sets in the true layouts, and what ranks read of them."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

# As the ranks set them, before TensorFlow is imported.
os.environ["TF_USE_LEGACY_KERAS"] = "1"
os.environ["CUDA_VISIBLE_DEVICES"] = "-1"

import numpy as np
import pytest
from PIL import Image

from train.config.checks import ConfigError
from train.config.compose import load
from train.datasets import DATASETS
from train.input.reader import Reader

Sample = tuple[tuple[int, ...], int]  # a colour in tens, as JPEG moves a level by one or two; the label


@pytest.fixture
def opened() -> Callable[..., list[Reader]]:
    """A dataset as each rank of a job opens it, at 16 x 16 pixels, without augmentation unless asked for."""

    def open_all(dataset: str, folder: Path, *overrides: str, augmented: bool = False) -> list[Reader]:
        given = [f"dataset={dataset}", f"dataset.data_dir={folder}", "model=tiny", "model.image_size=16", "nodes=1"]
        given += ["batch_per_rank=2", *([] if augmented else ["dataset.augmentation=null"]), *overrides]
        config = load(given)
        return [DATASETS[dataset](config, rank) for rank in range(config.ranks)]

    return open_all


@pytest.fixture
def damaged(opened) -> Callable[..., Reader]:
    """A damaged dataset as the only rank opens it: it is checked that with on_damaged=error it opens none."""

    def open_damaged(dataset: str, folder: Path, *overrides: str) -> Reader:
        (reader,) = opened(dataset, folder, *overrides)
        with pytest.raises(ConfigError, match="on_damaged=skip") as error:
            opened(dataset, folder, *overrides, "dataset.on_damaged=error")
        assert any(note in str(error.value) for note in reader.notes)
        return reader

    return open_damaged


@pytest.fixture
def picture() -> Callable[..., None]:
    """Write an image of one colour; its suffix says the format."""

    def write(path: Path, colour: tuple[int, int, int]) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        quality = {} if path.suffix == ".png" else {"quality": 95}
        Image.new("RGB", (20, 24), colour).save(path, **quality)

    return write


def weighted(batches: Iterator[tuple]) -> Iterator[tuple[Sample, float]]:
    for images, labels, *weights in batches:
        colours = (np.rint(images.numpy()[:, 0, 0] * 25.5) * 10).astype(int).tolist()
        for colour, label, weight in zip(
            colours, labels.numpy().tolist(), *weights or [[1] * len(colours)], strict=True
        ):
            yield (tuple(colour), label), float(weight)


@pytest.fixture
def trained() -> Callable[..., list[Sample]]:
    """The samples that ranks train with in an epoch, by the colour of the first pixel."""
    return lambda readers, epoch=0: [one for reader in readers for one, _ in weighted(reader.training(epoch))]


@pytest.fixture
def validated() -> Callable[..., Counter[Sample]]:
    """The weight of each validation sample on all ranks together, but for padding."""

    def weights(readers: list[Reader]) -> Counter[Sample]:
        counted: Counter[Sample] = Counter()
        for reader in readers:
            for sample, weight in weighted(reader.validation()):
                counted[sample] += weight
        return +counted

    return weights


@pytest.fixture
def each_once(trained, validated) -> Callable[..., None]:
    """Check that ranks train with samples of one set, as many as fill global batches, and validate those of another."""

    def check(readers: list[Reader], training: set[Sample], validation: set[Sample], epoch: int = 0) -> None:
        samples = trained(readers, epoch)
        global_batch = len(readers) * readers[0].step_batch
        assert len(set(samples)) == len(samples) == len(training) // global_batch * global_batch
        assert set(samples) <= training
        assert validated(readers) == dict.fromkeys(validation, 1)

    return check
