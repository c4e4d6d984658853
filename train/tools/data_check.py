"""Check a dataset's folder: its files, missing and damaged ones, and differences to the published counts.

Decodes every sample once; training only does so in its first epoch:

    python -m train.tools.data_check dataset=cifar10 dataset.data_dir=/data/cifar10

The exit status is 0 if all samples can be read, 1 if some are damaged, 2 if the dataset cannot be used.
"""

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from common import affinity
from common.terminal import show
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.run_config import RunConfig
from train.datasets import DATASETS
from train.input import reader
from train.tools import tensorflow_main

_SIZE = 32  # pixels: decoding reads the whole file whatever the size, and a small one costs less
_CHUNK = 4096  # samples: at most this many between two messages
_MESSAGE_EVERY_S = 5.0


def fact_lines(facts: list[reader.Fact]) -> list[str]:
    """Return the lines of a table of counts, with the published ones."""
    rows = [("", "found", "published", "")]
    for fact in facts:
        published = f"{fact.published:,}" if fact.published is not None else ""
        differs = "" if fact.published in (None, fact.count) else "differs"
        rows.append((fact.name, f"{fact.count:,}", published, differs))
    width = max(len(row[0]) for row in rows)
    return [f"{name:<{width}}  {count:>10}  {published:>10}  {rest}".rstrip() for name, count, published, rest in rows]


def unreadable(part: reader.DatasetSplit) -> Iterator[str]:
    """Yield the name of each sample of a part that cannot be decoded, and why, in order. Uses all cores."""
    import tensorflow as tf

    from train.input import image_ops

    tf.get_logger().setLevel("ERROR")  # it warns of retracing for every image size, which is expected here
    numbers = np.full(len(image_ops.DRAWS), 0.5, np.float32)
    decode = tf.function(part.load, autograph=False)

    def failure(position: int) -> str | None:
        try:
            decode(tf.constant(position, tf.int64), tf.constant(numbers))
            return None
        except (tf.errors.OpError, UnicodeDecodeError):  # of the whole graph: decode again for the image's own message
            return f"{part.name(position)}: {reader.failure(part, position, numbers)}"

    printed_at = time.monotonic()
    with ThreadPoolExecutor(len(affinity.usable_cores())) as pool:
        for begin in range(0, part.samples, _CHUNK):
            end = min(begin + _CHUNK, part.samples)
            yield from (text for text in pool.map(failure, range(begin, end)) if text)
            if time.monotonic() - printed_at > _MESSAGE_EVERY_S:
                printed_at = time.monotonic()
                show(f"decoded {end:,} of {part.samples:,}", file=sys.stderr)


def check_dataset(config: RunConfig) -> int:
    """Print the content of the folder; return the number of damaged or missing samples. Raises ConfigError."""
    if not config.dataset.files:
        raise ConfigError(f"dataset={config.dataset.name}: is not read from a folder, so there is nothing to check")
    data = DATASETS[config.dataset.name](config, 0)
    assert isinstance(data, reader.Reader)
    parts = data.parts
    show(f"{config.dataset.name} in {config.dataset.data_dir}")
    show("", *fact_lines(parts.facts), "", *parts.notes)
    damaged = parts.training.damaged + parts.validation.damaged
    for name, part in (("training", parts.training), ("validation", parts.validation)):
        for failure in unreadable(part):
            damaged += 1
            show(f"cannot be decoded: {name} sample {failure}")
    total = parts.training.samples + parts.validation.samples
    show(f"{total:,} samples checked, {damaged:,} missing or damaged")
    return damaged


def run(overrides: list[str]) -> int:
    """Return the exit status for the dataset that the overrides name: 1 if something is damaged."""
    one_rank = ["nodes=1", "ranks_per_node=1", "batch_per_rank=1", f"model.image_size={_SIZE}"]
    return 1 if check_dataset(load([*one_rank, *overrides])) else 0


if __name__ == "__main__":
    tensorflow_main("train.tools.data_check", __doc__, "as dataset=cifar10 dataset.data_dir=/data/cifar10", run)
