"""Fixtures of the tests of the datasets: readers of small sets, and the samples that ranks read from them."""

import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

# Ranks set these too, before TensorFlow is imported.
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
def open_dataset() -> Callable[..., list[Reader]]:
    """Open a dataset on each rank of a job, at 16 x 16 pixels, by default without augmentation."""

    def open_all(dataset: str, folder: Path, *overrides: str, augmented: bool = False) -> list[Reader]:
        settings = [f"dataset={dataset}", f"dataset.data_dir={folder}", "model=tiny", "model.image_size=16", "nodes=1"]
        settings += ["batch_per_rank=2", *([] if augmented else ["dataset.augmentation=null"]), *overrides]
        config = load(settings)
        return [DATASETS[dataset](config, rank) for rank in range(config.ranks)]

    return open_all


@pytest.fixture
def open_damaged(open_dataset) -> Callable[..., Reader]:
    """Open a damaged dataset on the only rank; check that on_damaged=error refuses it."""

    def open_reader(dataset: str, folder: Path, *overrides: str) -> Reader:
        (reader,) = open_dataset(dataset, folder, *overrides)
        with pytest.raises(ConfigError, match="on_damaged=skip") as error:
            open_dataset(dataset, folder, *overrides, "dataset.on_damaged=error")
        assert any(note in str(error.value) for note in reader.notes)
        return reader

    return open_reader


@pytest.fixture
def write_picture() -> Callable[..., None]:
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
def training_samples() -> Callable[..., list[Sample]]:
    """The samples that ranks train with in an epoch, by the colour of the first pixel."""
    return lambda readers, epoch=0: [sample for reader in readers for sample, _ in weighted(reader.training(epoch))]


@pytest.fixture
def validation_weights() -> Callable[..., Counter[Sample]]:
    """The weight of each validation sample on all ranks together, without padding."""

    def weights(readers: list[Reader]) -> Counter[Sample]:
        totals: Counter[Sample] = Counter()
        for reader in readers:
            for sample, weight in weighted(reader.validation()):
                totals[sample] += weight
        return +totals

    return weights


@pytest.fixture
def check_each_once(training_samples, validation_weights) -> Callable[..., None]:
    """Check that ranks train with samples of one set, as many as fill global batches, and validate those of another."""

    def check(readers: list[Reader], training: set[Sample], validation: set[Sample], epoch: int = 0) -> None:
        samples = training_samples(readers, epoch)
        global_batch = len(readers) * readers[0].step_batch
        assert len(set(samples)) == len(samples) == len(training) // global_batch * global_batch
        assert set(samples) <= training
        assert validation_weights(readers) == dict.fromkeys(validation, 1)

    return check
