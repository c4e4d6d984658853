"""One rank's share of each epoch of a dataset, as batches for the model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from common import affinity
from train.config.checks import ConfigError
from train.config.run_config import RunConfig
from train.input import image_ops

if TYPE_CHECKING:
    import tensorflow as tf

_SUBSET_SEED = 0  # fixed: every run uses the same samples
_SPLIT_SEED = 0  # fixed: results are comparable only on the same validation samples

Function = Callable[..., tuple["tf.Tensor", ...]]


@dataclass(frozen=True)
class DatasetSplit:
    """The training or the validation samples, in an order that is the same on every rank."""

    samples: int
    # (position, draws (len(DRAWS),)) -> (image (height, width, channels), 0 to 255; label, from 0), in a tf.data map
    load: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
    name: Callable[[int], str]  # of the sample at a position, for people
    fingerprint: str  # equal on two ranks if they have the same samples
    # position -> the encoded image, in a tf.data map; None: the samples are in memory as pixels
    encoded: Callable[[tf.Tensor], tf.Tensor] | None = None
    notes: Sequence[str] = ()  # what was left out, and why
    damaged: int = 0  # samples that should be there and cannot be read


@dataclass(frozen=True)
class Fact:
    """A count in the files, and the count that the dataset's authors publish, if any."""

    name: str
    count: int
    published: int | None = None


@dataclass(frozen=True)
class Parts:
    """The parts of a dataset."""

    training: DatasetSplit
    validation: DatasetSplit
    facts: list[Fact] = field(default_factory=list)
    general_notes: Sequence[str] = ()  # on the dataset as a whole
    class_names: Sequence[str] = ()  # by label; empty if classes have only numbers

    @property
    def notes(self) -> list[str]:
        """Return notes for a reader of the results: samples that were left out, or are damaged."""
        return [*self.general_notes, *self.training.notes, *self.validation.notes]


def failure(part: DatasetSplit, position: int, numbers: np.ndarray) -> str | None:
    """Return TensorFlow's reason why the sample cannot be decoded; None if it can."""
    import tensorflow as tf

    try:
        part.load(tf.constant(position, tf.int64), tf.constant(numbers))
        return None
    except tf.errors.OpError as error:
        return str(error.message).splitlines()[0].split("}} ")[-1].split(" [Op:")[0]
    except UnicodeDecodeError:  # TensorFlow's message quotes the content, which is not text
        return "not the expected content"


def fingerprint(*values: object) -> str:
    """Return a SHA-256 over arrays and texts."""
    digest = hashlib.sha256()
    for value in values:
        content = np.asarray(value)
        digest.update(content.tobytes() if content.dtype.kind in "biuf" else "\0".join(map(str, content.flat)).encode())
    return digest.hexdigest()


def in_memory(images: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> DatasetSplit:
    """Return a part in memory: images (samples, height, width, channels), 0 to 255, and labels (samples,)."""
    import tensorflow as tf

    with tf.device("CPU"):
        pixels, classes = tf.constant(images), tf.constant(labels, tf.int32)
    return DatasetSplit(
        len(labels), lambda position, _: (pixels[position], classes[position]), names.__getitem__, fingerprint(labels)
    )


def subset(part: DatasetSplit, samples: int | None, part_name: str) -> DatasetSplit:
    """Return at most `samples` of a part, chosen with a fixed seed, in their order; the part if it has no more."""
    import tensorflow as tf

    if samples is None or samples >= part.samples:
        return part
    chosen = np.sort(np.random.default_rng(_SUBSET_SEED).permutation(part.samples)[:samples])
    with tf.device("CPU"):
        positions = tf.constant(chosen, tf.int64)

    def read(position: tf.Tensor) -> tf.Tensor:
        assert part.encoded is not None
        return part.encoded(positions[position])

    return replace(
        part,
        samples=samples,
        load=lambda position, numbers: part.load(positions[position], numbers),
        name=lambda position: part.name(int(chosen[position])),
        fingerprint=fingerprint(part.fingerprint, chosen),
        encoded=read if part.encoded else None,
        notes=[*part.notes, f"{samples} of {part.samples} {part_name} samples, as dataset.{part_name}_samples says"],
    )


def damage_note(config: RunConfig, damage: str) -> str:
    """Return the note on damage for the record. Raises ConfigError if dataset.on_damaged=error."""
    if config.dataset.on_damaged == "error":
        raise ConfigError(f"{damage}. Fix it, or leave it out with dataset.on_damaged=skip")
    return damage


def epoch_order(samples: int, seed: int, epoch: int) -> np.ndarray:
    """Return the order of all samples in one epoch, whatever the number of ranks: a permutation of shape (samples,)."""
    return np.random.default_rng([seed, epoch]).permutation(samples)


def training_indices(order: np.ndarray, step_batch: int, ranks: int, rank: int) -> np.ndarray:
    """Return the samples of one rank, in order: shape (steps * step_batch,).

    No two ranks share a sample, and every rank makes the same number of steps. The samples at the end that do not fill
    a global batch are left out (others in each epoch).

    order: as `epoch_order` returns it.
    """
    global_batch = step_batch * ranks
    return order[: len(order) // global_batch * global_batch][rank::ranks]


def validation_indices(samples: int, step_batch: int, ranks: int, rank: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the samples of one rank, and a weight for each: 1, or 0 for padding to complete batches on all ranks.

    Both of shape (steps * step_batch,). Over all ranks each sample has the weight 1 exactly once.
    """
    steps = -(-samples // (step_batch * ranks))
    positions = np.arange(steps * step_batch) * ranks + rank
    return np.minimum(positions, samples - 1), (positions < samples).astype(np.float32)


def split(samples: int, validation_fraction: float) -> tuple[np.ndarray, np.ndarray]:
    """Return indices for training and for validation: the same on every rank and in every run."""
    order = np.random.default_rng(_SPLIT_SEED).permutation(samples)
    held_out = round(samples * validation_fraction)
    return order[held_out:], order[:held_out]


class Reader:
    """One rank's samples; order and augmentation depend only on the seed and the epoch."""

    def __init__(self, config: RunConfig, rank: int, parts: Parts) -> None:
        """Limit the parts to the configured numbers of samples. Raises ConfigError if they are too few for a step."""
        parts = replace(
            parts,
            training=subset(parts.training, config.dataset.training_samples, "training"),
            validation=subset(parts.validation, config.dataset.validation_samples, "validation"),
        )
        self._config, self._rank, self._ranks, self.parts = config, rank, config.processes, parts
        self.step_batch = config.step_batch
        steps, self.dropped_samples = divmod(parts.training.samples, config.global_batch or 1)
        if not steps:
            where = f" in {config.dataset.data_dir}" if config.dataset.files else ""
            raise ConfigError(
                f"global_batch={config.global_batch}: {config.dataset.name} has {parts.training.samples} training "
                f"samples{where}; {'; '.join(['allowed is up to that', *parts.notes])}"
            )
        self.fingerprint = fingerprint(parts.training.fingerprint, parts.validation.fingerprint)
        self.class_names = parts.class_names
        self.notes = parts.notes
        self._unreadable: dict[str, set[int]] = {"training": set(), "validation": set()}
        self._traced = {
            "training": self._functions(parts.training, augmented=True),
            "validation": self._functions(parts.validation, augmented=False),
        }

    def share_out(self, rank: int, ranks: int) -> None:
        """Read the share of rank `rank` of `ranks` from now on; the batch per rank stays the same."""
        self._rank, self._ranks = rank, ranks

    @property
    def steps_per_epoch(self) -> int:
        """Return the steps of an epoch, the same on every rank."""
        return self.parts.training.samples // (self.step_batch * self._ranks)

    def training(self, epoch: int) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """Yield this rank's augmented batches of an epoch."""
        seed, samples = self._config.seed, self.parts.training.samples
        chosen = training_indices(epoch_order(samples, seed, epoch), self.step_batch, self._ranks, self._rank)
        draws = image_ops.draws(samples, seed, epoch)[chosen]
        for images, labels, _ in self._batches("training", chosen, draws, np.ones(len(chosen), np.float32)):
            yield images, labels

    def validation(self) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """Yield this rank's batches of the validation part, with a weight per sample."""
        samples = self.parts.validation.samples
        if not samples:
            return
        chosen, weights = validation_indices(samples, self.step_batch, self._ranks, self._rank)
        draws = np.full((len(chosen), len(image_ops.DRAWS)), 0.5, np.float32)
        yield from self._batches("validation", chosen, draws, weights)

    def _batches(
        self, part_name: str, chosen: np.ndarray, draws: np.ndarray, weights: np.ndarray
    ) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """Yield batches; if one cannot be decoded, its unreadable samples are replaced, and reading resumes there."""
        import tensorflow as tf

        part = self.parts.training if part_name == "training" else self.parts.validation
        batch = self.step_batch
        chosen, draws, weights = chosen.copy(), draws.copy(), weights.copy()
        self._replace_unreadable(part_name, chosen, draws, weights)  # known from an earlier epoch
        begin, end = 0, len(chosen)
        while begin < end:
            try:
                for images, labels, weight in self._pipeline(part_name, chosen[begin:], draws[begin:], weights[begin:]):
                    begin += batch
                    yield images, labels, weight
            except (tf.errors.OpError, UnicodeDecodeError):
                span = slice(begin, begin + batch)
                if not self._find_unreadable(part_name, part, chosen[span], draws[span]):
                    raise
                self._replace_unreadable(part_name, chosen, draws, weights)

    def _find_unreadable(self, part_name: str, part: DatasetSplit, chosen: np.ndarray, draws: np.ndarray) -> list[int]:
        """Note the positions of a batch that cannot be decoded, and return them."""
        unreadable = []
        weight = "" if part_name == "training" else ", with weight 0"
        for position, numbers in zip(chosen.tolist(), draws, strict=True):
            if position not in unreadable and (why := failure(part, position, numbers)):
                unreadable.append(position)
                replaced = f"in {part_name} another sample of its batch replaced it{weight}"
                note = f"{part.name(position)} cannot be decoded ({why}): {replaced}"
                self.notes.append(damage_note(self._config, note))
        self._unreadable[part_name].update(unreadable)
        return unreadable

    def _replace_unreadable(self, part_name: str, chosen: np.ndarray, draws: np.ndarray, weights: np.ndarray) -> None:
        """Replace unreadable samples, in place, by readable ones of their batch; validation weighs them 0."""
        bad = np.isin(chosen, list(self._unreadable[part_name]))
        for position in np.flatnonzero(bad):
            batch = np.arange(len(chosen)).reshape(-1, self.step_batch)[position // self.step_batch]
            good = batch[~bad[batch]]
            substitute = good[0] if good.size else np.flatnonzero(~bad)[0] if not bad.all() else None
            if substitute is None:
                raise ConfigError(
                    f"{self._config.dataset.data_dir}: rank {self._rank} can decode none of its {part_name} samples"
                )
            chosen[position], draws[position] = chosen[substitute], draws[substitute]
            if part_name == "validation":
                weights[position] = 0.0

    def _functions(self, part: DatasetSplit, *, augmented: bool) -> tuple[Function, Function]:
        """Return the functions applied to a sample and to a batch; traced once, which takes 0.3 s of a core.

        AutoGraph has nothing to convert, and would leave files in the temporary folder.
        """
        import tensorflow as tf

        size, channels = self._config.model.image_size, self._config.dataset.channels
        settings = self._config.dataset.augmentation if augmented else None

        @tf.function(autograph=False)
        def load(position: tf.Tensor, numbers: tf.Tensor, weight: tf.Tensor) -> tuple[tf.Tensor, ...]:
            image, label = part.load(position, numbers)
            image = tf.cast(image, tf.float32)
            if settings:
                image = image_ops.augment(image, numbers, settings)
            return image, tf.cast(label, tf.int32), weight

        @tf.function(autograph=False)
        def finish(images: tf.Tensor, labels: tf.Tensor, weight: tf.Tensor) -> tuple[tf.Tensor, ...]:
            if images.shape[1:3] != (size, size):
                images = tf.image.resize(images, (size, size))
            return tf.ensure_shape(images / 255.0, (None, size, size, channels)), labels, weight

        return load, finish

    def _pipeline(self, part_name: str, chosen: np.ndarray, draws: np.ndarray, weights: np.ndarray) -> tf.data.Dataset:
        import tensorflow as tf

        load, finish = self._traced[part_name]
        threads = len(affinity.usable_cores())
        options = tf.data.Options()
        # TensorFlow's own pool has one thread: it does not disturb the training step, but decodes one image at a time.
        options.threading.private_threadpool_size = threads
        return (
            tf.data.Dataset.from_tensor_slices((chosen, draws, weights))
            .map(load, num_parallel_calls=threads, deterministic=True)
            .batch(self.step_batch, drop_remainder=True)
            .map(finish, num_parallel_calls=threads, deterministic=True)
            .prefetch(2)
            .with_options(options)
        )


def opener(find: Callable[[RunConfig], Parts]) -> Callable[[RunConfig, int], Reader]:
    """Return the function that opens a dataset for one rank, from the one that finds its parts.

    It raises ConfigError if the dataset cannot be used, or a global batch is larger than its training part.
    """
    return lambda config, rank: Reader(config, rank, find(config))
