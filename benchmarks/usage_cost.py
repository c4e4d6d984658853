"""What it costs to sample CPU and memory use beside a training step on one core.

    python -m benchmarks.usage_cost --pairs 12 --block-s 5

Trains the small network of the digits (32 x 32 pixels, batch 64) in one process bound to one core, in blocks, in turn
with the sampler on the same core, as a rank has it, and without. Each pair of blocks gives the ratio of their step
times, by the clock and by this process's CPU time: the first counts what the sampler takes from the core, and whatever
else runs there.
"""

import argparse
import os
import resource
import statistics
import time

from analysis.metrics import estimate
from train.config.compose import load
from train.rank import placement
from train.rank.sampler import Sampler

PERIOD_S = 1.0  # as conf/measure has it


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=12)
    parser.add_argument("--block-s", type=float, default=5.0)
    options = parser.parse_args()
    os.environ["TF_USE_LEGACY_KERAS"] = "1"
    os.environ["CUDA_VISIBLE_DEVICES"] = "-1"
    placement.bind(placement.usable_cores()[-1:])
    import tensorflow as tf

    from train.tools.input_bench import training_step

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    one_core = ["nodes=1", "ranks_per_node=1", "distribution=none", "threads_per_rank=1"]
    step = training_step(load([*one_core, "model=digits_cnn", "batch_per_rank=64"]))

    def block() -> tuple[float, float]:
        """Seconds a step, by the clock and by the CPU time of this process."""
        steps, begin, cpu_begin = 0, time.perf_counter(), time.process_time()
        while time.perf_counter() - begin < options.block_s:
            step()
            steps += 1
        return (time.perf_counter() - begin) / steps, (time.process_time() - cpu_begin) / steps

    taken = 0

    def sampled_block() -> tuple[float, float]:
        nonlocal taken
        sampler = Sampler(PERIOD_S, None)
        up = time.perf_counter() + PERIOD_S
        while time.perf_counter() < up:  # starting it is no part of what it costs while a rank trains
            step()
        times = block()
        taken += len(sampler.stop(time.time()).at_s)
        return times

    block()
    wall, cpu = [], []
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    for pair in range(options.pairs):
        order = (sampled_block, block) if pair % 2 else (block, sampled_block)
        times = {which: which() for which in order}
        on, off = times[sampled_block], times[block]
        wall.append(on[0] / off[0])
        cpu.append(on[1] / off[1])
        print(f"pair {pair}: {off[0] * 1e3:.1f} ms a step without; with: {wall[-1]:.4f} of it, CPU time {cpu[-1]:.4f}")
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    for words, ratios in (("clock", wall), ("CPU time", cpu)):
        e = estimate(ratios)
        middle = f"median {statistics.median(ratios):.4f}, n={e.n}"
        print(f"{words}: step time with / without: mean {e.value:.4f}, 95 % {e.low:.4f} to {e.high:.4f}, {middle}")
    print(f"sampler: {spent:.2f} s of CPU time in {options.pairs} starts and {taken} samples")


if __name__ == "__main__":
    main()
