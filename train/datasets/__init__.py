"""The datasets, by name. Every file here defines some in a mapping `DATASETS`; docs/adding.md: how to add one."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import tensorflow as tf

    from train.config.run_config import RunConfig


class Data(Protocol):
    """The data of one rank. Images (batch, size, size, channels), float32, 0 to 1; labels (batch,), integers from 0."""

    step_batch: int  # images that this rank takes in a step
    dropped_samples: int  # per epoch, of all ranks together: less than one global batch
    fingerprint: str  # of the samples: the ranks must agree; empty if each rank generates its own
    class_names: Sequence[str]  # by label; empty if classes have only numbers
    notes: Sequence[str]  # for a reader of the results: samples that were left out, or are damaged

    @property
    def steps_per_epoch(self) -> int:
        """Return the steps of an epoch, the same on every rank; 0 if the data have no epochs."""

    def training(self, epoch: int) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """Return this rank's batches of an epoch, one a step. The order depends only on the seed and the epoch."""

    def validation(self) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """Return batches with a weight per sample, 0 for padding: as many on every rank; in total each sample once."""

    def share_out(self, rank: int, ranks: int) -> None:
        """Read the share of rank `rank` of `ranks` from now on; the batch per rank stays the same."""


class DatasetBuilder(Protocol):
    """Opens one dataset for one rank; TensorFlow is imported when it is called, not before."""

    def __call__(self, config: RunConfig, rank: int) -> Data:
        """Return the data of this rank. Raises ConfigError if there is not enough of it for that many ranks."""


def find(folders: Iterable[str]) -> dict[str, DatasetBuilder]:
    """Return all datasets of the files in `folders`, the path of this package."""
    datasets: dict[str, DatasetBuilder] = {}
    for file in pkgutil.iter_modules(folders):
        datasets |= importlib.import_module(f"{__name__}.{file.name}").DATASETS
    return datasets


DATASETS: dict[str, DatasetBuilder] = find(__path__)
