"""What one rank reads of a dataset: its share of each epoch, as batches ready for the model."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

import numpy as np

from train.config.schema import Config, ConfigError
from train.input import augment, sharding
from train.rank import placement

if TYPE_CHECKING:
    import tensorflow as tf

_NAMED = 10  # of the damaged ones, in a note
_SUBSET_SEED = 0  # fixed: every run takes the same samples

Function = Callable[..., tuple["tf.Tensor", ...]]


@dataclass(frozen=True)
class Part:
    """The training or the validation samples, in an order that is the same on every rank."""

    samples: int
    # (position, draws (len(DRAWS),)) -> (image (height, width, channels), 0 to 255; label, from 0), in a tf.data map
    load: Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]
    name: Callable[[int], str]  # of the sample at a position, for people
    fingerprint: str  # the same where two ranks found the same samples
    # position -> the encoded image, in a tf.data map; None: the samples lie in memory as pixels
    encoded: Callable[[tf.Tensor], tf.Tensor] | None = None


@dataclass(frozen=True)
class Fact:
    """Something countable that was found, and what the dataset's authors publish; None: they say nothing."""

    name: str
    found: int
    published: int | None = None


@dataclass(frozen=True)
class Parts:
    """A dataset as it was found in its folder."""

    training: Part
    validation: Part
    facts: list[Fact] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # what was left out, and why
    damaged: int = 0  # samples that should be there and cannot be read
    class_names: Sequence[str] = ()  # by label; empty where a class has no other name than its number


def failure(part: Part, position: int, numbers: np.ndarray) -> str | None:
    """Why the sample cannot be decoded, in TensorFlow's words; None where it can."""
    import tensorflow as tf

    try:
        part.load(tf.constant(position, tf.int64), tf.constant(numbers))
        return None
    except tf.errors.OpError as error:
        return str(error.message).splitlines()[0].split("}} ")[-1].split(" [Op:")[0]
    except UnicodeDecodeError:  # TensorFlow's message quotes the content, which is no text
        return "not the expected content"


def name_some(names: Iterable[str]) -> str:
    """The first few names, and how many more there are."""
    names = list(names)
    more = len(names) - _NAMED
    return ", ".join(names[:_NAMED]) + (f" and {more} more" if more > 0 else "")


def fingerprint(*values: object) -> str:
    """A digest of arrays and texts."""
    digest = hashlib.sha256()
    for value in values:
        content = np.asarray(value)
        digest.update(content.tobytes() if content.dtype.kind in "biuf" else "\0".join(map(str, content.flat)).encode())
    return digest.hexdigest()


def in_memory(images: np.ndarray, labels: np.ndarray, names: Sequence[str]) -> Part:
    """Samples that fit into memory: images (samples, height, width, channels), 0 to 255, labels (samples,)."""
    import tensorflow as tf

    with tf.device("CPU"):
        held, classes = tf.constant(images), tf.constant(labels, tf.int32)
    return Part(
        len(labels), lambda position, _: (held[position], classes[position]), names.__getitem__, fingerprint(labels)
    )


def subset(part: Part, samples: int | None, notes: list[str], which: str) -> Part:
    """At most `samples` of a part, chosen by a fixed seed, in their order; the part itself where it has no more."""
    import tensorflow as tf

    if samples is None or samples >= part.samples:
        return part
    chosen = np.sort(np.random.default_rng(_SUBSET_SEED).permutation(part.samples)[:samples])
    notes.append(f"{samples} of {part.samples} {which} samples, as dataset.{which}_samples says")
    with tf.device("CPU"):
        places = tf.constant(chosen, tf.int64)

    def read(position: tf.Tensor) -> tf.Tensor:
        assert part.encoded is not None
        return part.encoded(places[position])

    return Part(
        samples,
        lambda position, numbers: part.load(places[position], numbers),
        lambda position: part.name(int(chosen[position])),
        fingerprint(part.fingerprint, chosen),
        read if part.encoded else None,
    )


def refuse_or_note(config: Config, notes: list[str], damage: str) -> None:
    """Keep what is damaged for the record. Raises ConfigError where the configuration does not want to go on."""
    if config.dataset.on_damaged == "error":
        raise ConfigError(f"{damage}. Mend it, or leave it out with dataset.on_damaged=skip")
    notes.append(damage)


class Reader:
    """One rank's samples; order and augmentation depend on the seed and the epoch alone."""

    def __init__(self, config: Config, rank: int, parts: Parts) -> None:
        """Share the samples out. Raises ConfigError where the ranks cannot make one step."""
        notes = list(parts.notes)
        parts = replace(
            parts,
            training=subset(parts.training, config.dataset.training_samples, notes, "training"),
            validation=subset(parts.validation, config.dataset.validation_samples, notes, "validation"),
            notes=notes,
        )
        self._config, self._rank, self._ranks, self.parts = config, rank, config.ranks, parts
        self.batch_per_rank = config.batch_per_rank or 0
        global_batch = config.global_batch or 0
        samples = parts.training.samples
        if global_batch > samples:
            raise ConfigError(
                f"global_batch={global_batch}: {config.dataset.name} has {samples} training samples"
                + (f" in {config.dataset.data_dir}" if config.dataset.files else "")
                + "; ".join(["; allowed is up to that", *parts.notes])
            )
        self.steps_per_epoch = samples // global_batch
        self.dropped_samples = samples - self.steps_per_epoch * global_batch
        self.fingerprint = fingerprint(parts.training.fingerprint, parts.validation.fingerprint)
        self.class_names = parts.class_names
        self.notes = list(parts.notes)
        self._unreadable: dict[str, set[int]] = {"training": set(), "validation": set()}
        self._traced = {
            "training": self._functions(parts.training, augmented=True),
            "validation": self._functions(parts.validation, augmented=False),
        }

    def share_out(self, rank: int, ranks: int) -> None:
        """From now on read what rank `rank` of `ranks` reads: the batch of a rank stays as it is."""
        self._rank, self._ranks = rank, ranks

    def steps_left(self, used: int) -> int:
        """How many steps the epoch still has after its first `used` samples."""
        return (self.parts.training.samples - used) // (self.batch_per_rank * self._ranks)

    def training(self, epoch: int, used: int = 0) -> Iterator[tuple[tf.Tensor, tf.Tensor]]:
        """The batches of this rank in this epoch, augmented, after the first `used` samples of all ranks together."""
        config, samples, ranks = self._config, self.parts.training.samples, self._ranks
        chosen = sharding.training_indices(
            samples, self.batch_per_rank * ranks, ranks, self._rank, config.seed, epoch, used
        )
        drawn = augment.draws(samples, config.seed, epoch)[chosen]
        for images, labels, _ in self._batches("training", chosen, drawn, np.ones(len(chosen), np.float32)):
            yield images, labels

    def validation(self) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """The batches of this rank over the validation part, each with the weight of its samples."""
        samples = self.parts.validation.samples
        if not samples:
            return
        chosen, weights = sharding.validation_indices(samples, self.batch_per_rank, self._ranks, self._rank)
        drawn = np.full((len(chosen), len(augment.DRAWS)), 0.5, np.float32)
        yield from self._batches("validation", chosen, drawn, weights)

    def _batches(
        self, which: str, chosen: np.ndarray, drawn: np.ndarray, weights: np.ndarray
    ) -> Iterator[tuple[tf.Tensor, tf.Tensor, tf.Tensor]]:
        """Batch after batch; at one that cannot be decoded, find out why, and go on from there."""
        import tensorflow as tf

        part = self.parts.training if which == "training" else self.parts.validation
        batch = self.batch_per_rank
        chosen, drawn, weights = chosen.copy(), drawn.copy(), weights.copy()
        self._stand_in(which, chosen, drawn, weights)  # what an earlier epoch could not decode
        begin, end = 0, len(chosen)
        while begin < end:
            try:
                for images, labels, weight in self._pipeline(which, chosen[begin:], drawn[begin:], weights[begin:]):
                    begin += batch
                    yield images, labels, weight
            except (tf.errors.OpError, UnicodeDecodeError):
                here = slice(begin, begin + batch)
                if not self._find_unreadable(which, part, chosen[here], drawn[here]):
                    raise
                self._stand_in(which, chosen, drawn, weights)

    def _find_unreadable(self, which: str, part: Part, chosen: np.ndarray, drawn: np.ndarray) -> list[int]:
        found = []
        for position, numbers in zip(chosen.tolist(), drawn, strict=True):
            if position not in found and (why := failure(part, position, numbers)):
                found.append(position)
                stood_in = "stood in for it" + ("" if which == "training" else ", with weight 0")
                refuse_or_note(
                    self._config,
                    self.notes,
                    f"{part.name(position)} cannot be decoded ({why}): in {which} another of its batch {stood_in}",
                )
        self._unreadable[which].update(found)
        return found

    def _stand_in(self, which: str, chosen: np.ndarray, drawn: np.ndarray, weights: np.ndarray) -> None:
        """Put a readable sample of the same batch where one is known to be unreadable; in validation it counts 0."""
        bad = np.isin(chosen, list(self._unreadable[which]))
        for place in np.flatnonzero(bad):
            batch = np.arange(len(chosen)).reshape(-1, self.batch_per_rank)[place // self.batch_per_rank]
            good = batch[~bad[batch]]
            other = good[0] if good.size else np.flatnonzero(~bad)[0] if not bad.all() else None
            if other is None:
                raise ConfigError(
                    f"{self._config.dataset.data_dir}: rank {self._rank} can decode none of its {which} samples"
                )
            chosen[place], drawn[place] = chosen[other], drawn[other]
            if which == "validation":
                weights[place] = 0.0

    def _functions(self, part: Part, *, augmented: bool) -> tuple[Function, Function]:
        """What is done to a sample, and to a batch. Traced once: anew for each epoch that takes 0.3 s of a core."""
        import tensorflow as tf

        size, channels = self._config.model.image_size, self._config.dataset.channels
        settings = self._config.dataset.augmentation if augmented else None

        @tf.function
        def load(position: tf.Tensor, numbers: tf.Tensor, weight: tf.Tensor) -> tuple[tf.Tensor, ...]:
            image, label = part.load(position, numbers)
            image = tf.cast(image, tf.float32)
            if settings:
                image = augment.augment(image, numbers, settings)
            return image, tf.cast(label, tf.int32), weight

        @tf.function
        def finish(images: tf.Tensor, labels: tf.Tensor, weight: tf.Tensor) -> tuple[tf.Tensor, ...]:
            if images.shape[1:3] != (size, size):
                images = tf.image.resize(images, (size, size))
            return tf.ensure_shape(images / 255.0, (None, size, size, channels)), labels, weight

        return load, finish

    def _pipeline(self, which: str, chosen: np.ndarray, drawn: np.ndarray, weights: np.ndarray) -> tf.data.Dataset:
        import tensorflow as tf

        load, finish = self._traced[which]
        threads = len(placement.usable_cores())
        options = tf.data.Options()
        # TensorFlow's own pool has one thread (it would disturb the training step), which would decode one by one.
        options.threading.private_threadpool_size = threads
        return (
            tf.data.Dataset.from_tensor_slices((chosen, drawn, weights))
            .map(load, num_parallel_calls=threads, deterministic=True)
            .batch(self.batch_per_rank, drop_remainder=True)
            .map(finish, num_parallel_calls=threads, deterministic=True)
            .prefetch(2)
            .with_options(options)
        )
