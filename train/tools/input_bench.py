"""Is the input the bottleneck? Images/s of one core: decoding, resizing, the whole pipeline, and the training step.

    python -m train.tools.input_bench model=resnet50 dataset=fruit dataset.data_dir=/data/fruit

Without a dataset it generates photographs (JPEGs of 500 x 375 pixels, about the mean size of ImageNet's) and augments
them as ImageNet's are: random crops and flips. Everything runs on one core, arm after arm, round after round, so that a
slow drift of the machine affects all arms alike. Rates are images per second of CPU time, which other programs on that
core do not change; the whole pipeline is also timed by the wall clock, which includes waiting for files.
"""

from __future__ import annotations

import itertools
import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from common import affinity
from common.terminal import show, text_table
from train.config.checks import ConfigError
from train.config.compose import load
from train.config.identity import resolved
from train.config.run_config import RunConfig
from train.rank import placement
from train.tools import tensorflow_main

if TYPE_CHECKING:
    import tensorflow as tf

    from train.input.reader import Reader

ROUNDS = 5
AIM = 0.8  # the fraction of the rate of decoding and resizing that the whole pipeline should reach on one core
_IMAGES = 768  # at most, of a dataset
_GENERATED = (375, 500)  # height, width of generated photographs
_CLASSES = ("freshapples", "freshbanana", "freshoranges", "rottenapples", "rottenbanana", "rottenoranges")
_AS_IMAGENET = [  # the photographs are in the layout of fruit, augmented as conf/dataset/imagenet.yaml says
    "dataset.augmentation.flip=true",
    "dataset.augmentation.crop_area_fraction=0.08",
    "dataset.augmentation.zoom_in_fraction=0",
    "dataset.augmentation.shift_fraction=0",
]

DECODE, RESIZE, SCALED, AUGMENT, PIPELINE, MODEL = (
    "decode, full size",
    "decode, full size + resize",
    "decode to size + resize",
    "decode to size + resize + augment",
    "whole pipeline, from files",
    "training step",
)
WALL = "whole pipeline, by the wall clock"


Rates = Mapping[str, Sequence[float]]  # arm -> its images/s of one core, or of a GPU, in each round


def ratio(rates: Rates, arm: str, base: str) -> float:
    """Return the median of the ratios of an arm to a base in each round."""
    return statistics.median(a / b for a, b in zip(rates[arm], rates[base], strict=True))


def make_photographs(folder: Path, count: int) -> None:
    """Write `count` JPEGs in the layout of the fruit set: colours and grain of several sizes, from a fixed seed."""
    import numpy as np
    import tensorflow as tf

    random = np.random.default_rng(0)
    height, width = _GENERATED
    for number in range(count):
        layers = [
            amplitude * tf.image.resize(random.uniform(-1, 1, (height // grain + 1, width // grain + 1, 3)), _GENERATED)
            for grain, amplitude in ((128, 90.0), (32, 45.0), (8, 25.0), (2, 12.0))
        ]
        pixels = tf.cast(tf.clip_by_value(128.0 + tf.add_n(layers), 0, 255), tf.uint8)
        for part in ("train", "test") if number < len(_CLASSES) else ("train",):
            path = folder / part / _CLASSES[number % len(_CLASSES)] / f"{number}.jpg"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(tf.io.encode_jpeg(pixels, quality=92).numpy())


def _rate(batches: Iterable[object], images: int, clock: Callable[[], float] = time.process_time) -> float:
    begin = clock()
    for _ in batches:
        pass
    return images / (clock() - begin)


def _mapped(values: tuple[object, ...], function: Callable[..., tf.Tensor]) -> tf.data.Dataset:
    """Return a minimal pipeline: `function` applied to the values, on one thread."""
    import tensorflow as tf

    options = tf.data.Options()
    options.threading.private_threadpool_size = 1
    mapped = tf.data.Dataset.from_tensor_slices(values).map(tf.autograph.experimental.do_not_convert(function))
    return mapped.with_options(options)


def arms(config: RunConfig, data: Reader) -> dict[str, Callable[[], float]]:
    """Return the parts of the input that are measured, by name; each call measures images/s once."""
    images = data.steps_per_epoch * data.step_batch
    parts = _encoded_parts(config, data, images) if data.parts.training.encoded else _decoded_part(config, data, images)
    epochs = itertools.count()
    return {
        **{name: partial(_rate, dataset, images) for name, dataset in parts.items()},
        PIPELINE: lambda: _rate(data.training(next(epochs)), images),
        WALL: lambda: _rate(data.training(next(epochs)), images, time.perf_counter),
    }


def _encoded_parts(config: RunConfig, data: Reader, images: int) -> dict[str, tf.data.Dataset]:
    """Return the steps from encoded images in memory to batches, each with all steps before it."""
    import tensorflow as tf

    from train.input import image_ops

    encoded_image = data.parts.training.encoded
    assert encoded_image is not None
    size, channels, batch = config.model.image_size, config.dataset.channels, data.step_batch
    contents = tf.constant([encoded_image(tf.constant(position)).numpy() for position in range(images)])
    make = image_ops.decoder(config, training=True)
    settings = config.dataset.augmentation

    def plain(encoded: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
        return tf.io.decode_image(encoded, channels=channels, expand_animations=False)

    def resized(encoded: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
        return tf.image.resize(plain(encoded, numbers), (size, size))

    def augmented(encoded: tf.Tensor, numbers: tf.Tensor) -> tf.Tensor:
        pixels = make(encoded, numbers)
        return image_ops.augment(pixels, numbers, settings) if settings else pixels

    values = (contents, image_ops.draws(images, config.seed, 0))
    return {
        DECODE: _mapped(values, plain),
        RESIZE: _mapped(values, resized).batch(batch),
        SCALED: _mapped(values, make).batch(batch),
        AUGMENT: _mapped(values, augmented).batch(batch),
    }


def _decoded_part(config: RunConfig, data: Reader, images: int) -> dict[str, tf.data.Dataset]:
    """Return the step of resizing images that are in memory as pixels."""
    import numpy as np
    import tensorflow as tf

    from train.input import image_ops

    size, zeros = config.model.image_size, tf.zeros(len(image_ops.DRAWS))

    def resized(position: tf.Tensor) -> tf.Tensor:
        return tf.image.resize(data.parts.training.load(position, zeros)[0], (size, size))

    return {RESIZE: _mapped((np.arange(images),), resized).batch(data.step_batch)}


def training_step(config: RunConfig) -> Callable[[], float]:
    """Return a function that measures images/s of the model's training step once, on images in memory."""
    import tensorflow as tf

    from train import distribution
    from train.datasets.built_in import Synthetic
    from train.loop import step
    from train.models import build

    model = build(config.model.name, config.model.image_size, config.dataset.channels, config.dataset.classes)
    optimizer = step.make_optimizer(config.optimizer, 1, config.precision, model, 1)
    passes = config.distribution.backward_passes_per_step
    ranks = distribution.join(config, Path(config.results))
    [train_step] = step.make_train_steps(model, optimizer, [ranks], config.optimizer.label_smoothing, passes)
    images_and_labels = next(Synthetic(config, 0).training(0))
    train_step(*images_and_labels)
    batch = config.step_batch
    clock = time.perf_counter if config.device == "gpu" else time.process_time

    def measure() -> float:
        tf.test.experimental.sync_devices()
        begin = clock()
        train_step(*images_and_labels)
        tf.test.experimental.sync_devices()
        return batch / (clock() - begin)

    return measure


def table(rates: Rates, device: str) -> list[str]:
    """Return a table of the rates, and the conclusion."""
    reference = SCALED if SCALED in rates else RESIZE
    rows = []
    for arm, values in rates.items():
        share = f"{ratio(rates, arm, reference):.2f}" if arm != MODEL else ""
        least, middle, most = (f"{rate:.1f}" for rate in (min(values), statistics.median(values), max(values)))
        rows.append({"": arm, "images/s": middle, "min": least, "max": most, f"of {reference}": share})
    lines = [text_table(rows), ""]
    reached = ratio(rates, PIPELINE, reference)
    verdict = "reached" if reached >= AIM else "not reached"
    lines.append(f"The whole pipeline has {reached:.2f} of {reference}; the aim of {AIM} is {verdict}.")
    trained = statistics.median(rates[MODEL])
    cores = trained / statistics.median(rates[PIPELINE])
    needed = f"{cores:.2f}" if cores >= 0.1 else f"{cores:.1g}"
    trainer = "a GPU" if device == "gpu" else "a core that trains"
    lines.append(f"The training step takes {trained:.1f} images/s: {trainer} needs {needed} cores of input.")
    if cores >= 1:
        lines.append("With fewer, the input is the bottleneck: a faster device would not train faster.")
    return lines


def measure(config: RunConfig) -> Rates:
    """Return the rates of all arms, interleaved over the rounds, after one round of warm-up."""
    from train.datasets import DATASETS
    from train.input.reader import Reader

    data = DATASETS[config.dataset.name](config, 0)
    if not isinstance(data, Reader):
        raise ConfigError(
            f"dataset={config.dataset.name}: it has no input to measure; give one that is read from files or memory"
        )
    measurements = {**arms(config, data), MODEL: training_step(config)}
    rates: dict[str, list[float]] = {name: [] for name in measurements}
    for round_ in range(1 + ROUNDS):
        for name, measure in measurements.items():
            rate = measure()
            if round_:
                rates[name].append(rate)
        show(f"round {round_} of {ROUNDS}", file=sys.stderr)
    return rates


def run(overrides: list[str]) -> int:
    """Measure on one core, print the table, and write it with the configuration and the host; returns 0."""
    placement.bind(affinity.usable_cores()[-1:])
    generated = not any(item.startswith("dataset=") for item in overrides)
    with tempfile.TemporaryDirectory() as folder:
        if generated:
            overrides = ["dataset=fruit", f"dataset.data_dir={folder}", *_AS_IMAGENET, *overrides]
        samples = [] if "training_samples" in " ".join(overrides) else [f"dataset.training_samples={_IMAGES}"]
        alone = ["nodes=1", "ranks_per_node=1", "distribution=none", "threads_per_rank=1"]
        config = load([*alone, *overrides, *samples])
        import tensorflow as tf

        tf.config.threading.set_intra_op_parallelism_threads(1)
        tf.config.threading.set_inter_op_parallelism_threads(1)
        if generated:
            show(f"no dataset given: generating {_IMAGES} photographs", file=sys.stderr)
            make_photographs(Path(folder), _IMAGES)
        rates = measure(config)
    show(*table(rates, config.device))
    show("", str(_write(rates, config)))
    return 0


def _write(rates: Rates, config: RunConfig) -> Path:
    """Return the path of the JSON file that holds the rates and how they were measured."""
    from record.run_files import write_file
    from train.rank import environment

    path = Path(config.results) / "input_bench" / f"{config.dataset.name}-{config.model.name}-{config.device}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    content = {
        "images_per_s": rates,
        "config": resolved(config),
        "host": asdict(environment.host([0])),
        "measured_at": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }
    write_file(path, json.dumps(content, indent=1).encode())
    return path


if __name__ == "__main__":
    tensorflow_main(
        "train.tools.input_bench",
        __doc__,
        "as model=resnet50 dataset=fruit dataset.data_dir=/data/fruit",
        run,
        gpu=True,
    )
