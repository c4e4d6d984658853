"""The cost of sampling CPU and memory use during training steps on one core.

    python -m benchmarks.usage_cost --pairs 12 --block-s 5

Trains the small network of the digits (32 x 32 pixels, batch 64) in one process bound to one core, in blocks that
alternate: with the sampler on the same core, as a rank has it, and without. Each pair of blocks gives the ratio of
their step times, by the clock, which includes the time that the sampler takes from the core. In brackets is the 95 %
interval of the median ratio, by order statistics.
"""

import os
import time
from collections.abc import Callable

from benchmarks.common import in_words, options
from common import affinity
from train.config.compose import load
from train.rank import placement
from train.rank.sampler import Sampler

PERIOD_S = 1.0  # as in conf/measure
Step = Callable[[], object]


def make_step() -> Step:
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    placement.bind(affinity.usable_cores()[-1:])
    import tensorflow as tf

    from train.tools.input_bench import training_step

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    one_core = ["nodes=1", "ranks_per_node=1", "distribution=none", "threads_per_rank=1"]
    return training_step(load([*one_core, "model=digits_cnn", "batch_per_rank=64"]))


def plain_step_s(step: Step, block_s: float) -> float:
    """Return the mean time of the steps of a block."""
    steps, begin = 0, time.perf_counter()
    while time.perf_counter() - begin < block_s:
        step()
        steps += 1
    return (time.perf_counter() - begin) / steps


def sampled_step_s(step: Step, block_s: float) -> float:
    """Return the same with the sampler, which was started before, so that its start does not count."""
    sampler = Sampler(PERIOD_S, None)
    plain_step_s(step, PERIOD_S)
    step_s = plain_step_s(step, block_s)
    sampler.stop(time.time())
    return step_s


def main() -> None:
    arguments = options("usage_cost", __doc__, pairs=(12, "of blocks"), block_s=(5.0, "of a block")).parse_args()
    step, ratios = make_step(), []
    plain_step_s(step, arguments.block_s)  # warm-up
    for pair in range(arguments.pairs):  # every second pair begins with the sampler
        order = (sampled_step_s, plain_step_s) if pair % 2 else (plain_step_s, sampled_step_s)
        times_s = {block: block(step, arguments.block_s) for block in order}
        ratios.append(times_s[sampled_step_s] / times_s[plain_step_s])
        print(f"pair {pair}: {times_s[plain_step_s] * 1e3:.1f} ms a step without; with: {ratios[-1]:.4f} of it")
    print(f"step time with / without: {in_words(ratios, 4)}, n={len(ratios)}")


if __name__ == "__main__":
    main()
