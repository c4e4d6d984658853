"""The cost of a model on one core: parameters, memory per image, time per training step: the numbers of conf/model.

    python -m benchmarks.model_footprint resnet50 --image-size 224
    python -m benchmarks.model_footprint mymodel --image-size 64 --channels 3 --batches 8 16 32

A step is float32: forward, gradient, SGD with momentum. The peak memory of a process never falls, so every batch is
measured in a separate process. The time at which TensorFlow frees a large gradient varies, which moves the peak of VGG
by a gigabyte, so the largest peak of several repeats counts. `activation_bytes_per_image` is the slope of a line
through these peaks (least squares).
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

from scipy.stats import linregress

from train.record import affinity

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


def slope(points: list[dict[str, float]]) -> float:
    """Return the peak bytes that one more image in the batch costs, by least squares."""
    return linregress([point["batch"] for point in points], [point["peak_bytes"] for point in points]).slope


def peak_of(repeats: int, batch: int) -> dict[str, float]:
    """Return the result with the largest peak of some processes that train with this batch."""
    command = [sys.executable, "-m", "benchmarks.model_footprint", *sys.argv[1:], "--child", str(batch)]
    runs = []
    for _ in range(repeats):
        child = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
        runs.append(json.loads(child.stdout.splitlines()[-1]))
    return max(runs, key=lambda run: run["peak_bytes"])


def main() -> None:
    """Measure every batch in processes on one core; print the table and the numbers for the YAML file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model of train/models")
    parser.add_argument("--image-size", type=int, required=True, help="pixels of one side")
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8], help="at least two, images a step")
    parser.add_argument(
        "--repeats", type=int, default=1, help="processes per batch; the one with the largest peak counts"
    )
    parser.add_argument("--steps", type=int, default=3, help="timed steps; the median is shown")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.child is not None:
        print(
            json.dumps(
                train(arguments.model, arguments.image_size, arguments.channels, arguments.child, arguments.steps)
            )
        )
        return
    if len(set(arguments.batches)) < 2 or min(arguments.batches) < 1:
        parser.error(f"--batches {arguments.batches}: a slope needs at least two different batches of 1 image or more")
    # TensorFlow leaves oneDNN off on CPUs without AVX-512, where it is up to three times faster.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.sched_setaffinity(0, affinity.usable_cores()[:1])
    points = []
    for batch in [0, *arguments.batches]:
        points.append(peak_of(arguments.repeats, batch))
        text = f"batch {batch:3}  peak {points[-1]['peak_bytes'] / 1e6:8.0f} MB"
        print(text + (f"  step {points[-1]['step_s']:.3f} s" if batch else "  (only the imports)"), flush=True)
    print(f"parameters: {points[-1]['parameters']}  # at {CLASSES} classes and {arguments.channels} channels")
    print(f"activation_bytes_per_image: {round(slope(points[1:]))}")


if __name__ == "__main__":
    main()
