"""The cost of sampling CPU and memory use during training steps on one core.

    python -m benchmarks.usage_cost --pairs 12 --block-s 5

Trains the small network of the digits (32 x 32 pixels, batch 64) in one process bound to one core, in blocks that
alternate: with the sampler on the same core, as a rank has it, and without. Each pair of blocks gives the ratio of
their step times, by the clock and by this process's CPU time. Only the clock includes the time that the sampler and
other processes take from the core.
"""

import os
import resource
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from analysis.stats.student import mean
from benchmarks.common import options
from train.config.compose import load
from train.rank import placement
from train.rank.sampler import Sampler
from train.record import affinity

PERIOD_S = 1.0  # as in conf/measure
Step = Callable[[], object]


@dataclass(frozen=True)
class Block:
    """One block of training steps: seconds per step, by the clock and by the CPU time of this process."""

    wall_s: float
    cpu_s: float
    samples: int = 0  # taken during it


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


def plain_block(step: Step, block_s: float) -> Block:
    steps, begin, cpu_begin = 0, time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < block_s:
        step()
        steps += 1
    return Block((time.perf_counter() - begin) / steps, (time.process_time() - cpu_begin) / steps)


def sampled_block(step: Step, block_s: float) -> Block:
    """Return a block with the sampler, which was started before, so that its start does not count."""
    sampler = Sampler(PERIOD_S, None)
    up = time.perf_counter() + PERIOD_S
    while time.perf_counter() < up:
        step()
    block = plain_block(step, block_s)
    return Block(block.wall_s, block.cpu_s, len(sampler.stop(time.time()).at_s))


def measure(step: Step, pairs: int, block_s: float) -> list[tuple[Block, Block]]:
    """Return pairs of blocks, without and with the sampler; every second pair begins with the sampler."""
    plain_block(step, block_s)  # warm-up
    pairs_of_blocks = []
    for pair in range(pairs):
        order = (sampled_block, plain_block) if pair % 2 else (plain_block, sampled_block)
        blocks = {make: make(step, block_s) for make in order}
        off, on = blocks[plain_block], blocks[sampled_block]
        pairs_of_blocks.append((off, on))
        ratios = f"{on.wall_s / off.wall_s:.4f} of it, CPU time {on.cpu_s / off.cpu_s:.4f}"
        print(f"pair {pair}: {off.wall_s * 1e3:.1f} ms per step without; with: {ratios}")
    return pairs_of_blocks


def main() -> None:
    arguments = options("usage_cost", __doc__, pairs=(12, "of blocks"), block_s=(5.0, "of a block")).parse_args()
    step = make_step()
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    pairs = measure(step, arguments.pairs, arguments.block_s)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    for clock, ratios in (
        ("clock", [on.wall_s / off.wall_s for off, on in pairs]),
        ("CPU time", [on.cpu_s / off.cpu_s for off, on in pairs]),
    ):
        e = mean(ratios)
        median = f"median {statistics.median(ratios):.4f}, n={e.n}"
        print(f"{clock}: step time with / without: mean {e.value:.4f}, 95 % {e.low:.4f} to {e.high:.4f}, {median}")
    taken = sum(on.samples for _, on in pairs)
    print(f"sampler: {spent:.2f} s of CPU time in {arguments.pairs} starts and {taken} samples")


if __name__ == "__main__":
    main()
