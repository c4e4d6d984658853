"""What a model costs on one core: parameters, memory an image, time a training step. Gives the numbers of conf/model.

    python -m benchmarks.model_footprint resnet50 --image-size 224
    python -m benchmarks.model_footprint mymodel --image-size 64 --channels 3 --batches 8 16 32

A step is float32: forward, gradient, SGD with momentum. The peak memory of a process never falls again, so every batch
is a process of its own. When TensorFlow frees a large gradient differs from run to run, which moves the peak of VGG by
a gigabyte, so the largest peak of some repeats counts. `activation_bytes_per_image` is the slope of a line through
these peaks (least squares).
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import time

CLASSES = 1000


def train(name: str, image_size: int, channels: int, batch: int, steps: int) -> dict[str, float]:
    """Train `name` for one step, then `steps` timed ones, in this process; batch 0 only imports. Bytes, seconds."""
    import horovod.tensorflow  # noqa: F401  it is in every rank, so its memory is part of the base
    import tensorflow as tf
    import tf_keras

    from train.models import build

    result: dict[str, float] = {"batch": batch}
    if batch:
        model = build(name, image_size, channels, CLASSES)
        # One fused kernel a variable; the newer SGD copies all variables at every step, which VGG16 feels.
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
    """The peak bytes that one more image in the batch costs, by least squares."""
    batches = [point["batch"] for point in points]
    peaks = [point["peak_bytes"] for point in points]
    middle, level = sum(batches) / len(points), sum(peaks) / len(points)
    above = sum((x - middle) * (y - level) for x, y in zip(batches, peaks, strict=True))
    return above / sum((x - middle) ** 2 for x in batches)


def main() -> None:
    """Measure every batch in a process on one core, then print the table and the numbers for the YAML file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", help="a model of train/models")
    parser.add_argument("--image-size", type=int, required=True, help="pixels of one side")
    parser.add_argument("--channels", type=int, default=3)
    parser.add_argument("--batches", type=int, nargs="+", default=[1, 2, 4, 8], help="at least two, images a step")
    parser.add_argument(
        "--repeats", type=int, default=1, help="processes a batch; the one with the largest peak counts"
    )
    parser.add_argument("--steps", type=int, default=3, help="timed steps; the median is shown")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.child is not None:
        print(json.dumps(train(chosen.model, chosen.image_size, chosen.channels, chosen.child, chosen.steps)))
        return
    if len(set(chosen.batches)) < 2 or min(chosen.batches) < 1:
        parser.error(f"--batches {chosen.batches}: a slope needs at least two different batches of 1 image or more")
    # TensorFlow leaves oneDNN off on CPUs without AVX-512, where it is still up to three times faster.
    os.environ.setdefault("TF_ENABLE_ONEDNN_OPTS", "1")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    points = []
    for batch in [0, *chosen.batches]:
        command = [sys.executable, "-m", "benchmarks.model_footprint", *sys.argv[1:], "--child", str(batch)]
        runs = []
        for _ in range(chosen.repeats):
            child = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
            runs.append(json.loads(child.stdout.splitlines()[-1]))
        points.append(max(runs, key=lambda run: run["peak_bytes"]))
        text = f"batch {batch:3}  peak {points[-1]['peak_bytes'] / 1e6:8.0f} MB"
        print(text + (f"  step {points[-1]['step_s']:.3f} s" if batch else "  (only the imports)"), flush=True)
    print(f"parameters: {points[-1]['parameters']}  # at {CLASSES} classes and {chosen.channels} channels")
    print(f"activation_bytes_per_image: {round(slope(points[1:]))}")


if __name__ == "__main__":
    main()
