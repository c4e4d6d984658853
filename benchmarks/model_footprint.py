"""The cost of a model on one core: parameters, memory per image, time per training step: the numbers of conf/model.

    python -m benchmarks.model_footprint resnet50 --image-size 224
    python -m benchmarks.model_footprint mymodel --image-size 64 --channels 3 --batches 8 16 32

A step is float32: forward, gradient, SGD with momentum. The peak memory of a process never falls, so every batch is
measured in a separate process. The time at which TensorFlow frees a large gradient varies, which moves the peak of VGG
by a gigabyte, so the largest peak of several repeats counts. `activation_bytes_per_image` is the slope of a line
through these peaks (least squares).
"""

import multiprocessing
import os
import resource
import time
from concurrent.futures import ProcessPoolExecutor
from functools import partial

from scipy.stats import linregress

from benchmarks.common import options
from common import affinity

CLASSES = 1000


def train(name: str, image_size: int, channels: int, batch: int, steps: int) -> dict[str, float]:
    """Return peak memory [bytes], parameters, median time [s] of steps after a first one; batch 0 only imports."""
    import horovod.tensorflow  # noqa: F401  every rank loads it: its memory is part of the base
    import tensorflow as tf
    import tf_keras

    from train.models import build

    result: dict[str, float] = {"batch": batch}
    if batch:
        model = build(name, image_size, channels, CLASSES)
        # One fused kernel per variable; the newer SGD copies all variables at every step, which slows VGG16 down.
        optimizer = tf_keras.optimizers.legacy.SGD(0.01, momentum=0.9)
        loss_of = tf_keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        images = tf.random.uniform((batch, image_size, image_size, channels), seed=0)
        labels = tf.range(batch) % CLASSES

        @tf.function
        def step() -> tf.Tensor:
            with tf.GradientTape() as tape:
                loss = loss_of(labels, model(images, training=True))
            weights = model.trainable_variables
            optimizer.apply_gradients(zip(tape.gradient(loss, weights), weights, strict=True))
            return loss

        step().numpy()
        times_s = []
        for _ in range(steps):
            start = time.perf_counter()
            step().numpy()
            times_s.append(time.perf_counter() - start)
        result |= {"parameters": model.count_params(), "step_s": sorted(times_s)[steps // 2]}
    result["peak_bytes"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    return result


def main() -> None:
    """Measure every batch in processes on one core; print the table and the numbers for the YAML file."""
    numbers = {"channels": (3, "of an image"), "steps": (3, "timed; the median is shown")}
    parser = options("model_footprint", __doc__, **numbers, repeats=(1, "processes of each batch"))
    parser.add_argument("model", help="a model of train/models")
    parser.add_argument("--image-size", type=int, required=True, help="pixels of one side")
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8], help="at least two, images a step")
    arguments = parser.parse_args()
    if len(set(arguments.batches)) < 2 or min(arguments.batches) < 1:
        parser.error(f"--batches {arguments.batches}: a slope needs at least two different batches of 1 image or more")
    # TensorFlow leaves oneDNN off on CPUs without AVX-512, where it is up to three times faster.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.sched_setaffinity(0, affinity.usable_cores()[:1])
    measure = partial(train, arguments.model, arguments.image_size, arguments.channels, steps=arguments.steps)
    points = []
    with ProcessPoolExecutor(1, multiprocessing.get_context("spawn"), max_tasks_per_child=1) as processes:
        for batch in [0, *arguments.batches]:
            runs = processes.map(measure, [batch] * arguments.repeats)
            points.append(max(runs, key=lambda run: run["peak_bytes"]))
            text = f"batch {batch:3}  peak {points[-1]['peak_bytes'] / 1e6:8.0f} MB"
            print(text + (f"  step {points[-1]['step_s']:.3f} s" if batch else "  (only the imports)"), flush=True)
    print(f"parameters: {points[-1]['parameters']}  # at {CLASSES} classes and {arguments.channels} channels")
    batches, peaks_bytes = ([point[name] for point in points[1:]] for name in ("batch", "peak_bytes"))
    print(f"activation_bytes_per_image: {round(linregress(batches, peaks_bytes).slope)}")


if __name__ == "__main__":
    main()
