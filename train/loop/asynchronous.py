"""Asynchronous training on parameter servers: rank 0 gives every rank its steps, all others serve.

Phases, timing and records are those of synchronous training (train/loop/timed_steps.py), without values that have no
meaning here: steps of different ranks do not belong together, and there is one set of weights.
"""

import functools
import itertools
import operator
import time
from collections.abc import Sequence

import numpy as np
import tensorflow as tf

from common.terminal import counted
from train.datasets import DATASETS
from train.distribution.parameter_servers import ParameterServers
from train.loop import roofline
from train.loop.devices import synchronize_devices
from train.loop.learner import Learner
from train.loop.step import TrainStep
from train.loop.timed_steps import Batches, Steps, TimedSteps, finite, run_steps, time_phases
from train.loop.training import make_model
from train.rank import counters
from train.task import Context

RankSteps = list[Steps]  # the steps of each rank


class _Coordinator:
    """Rank 0, where the model is: gives all ranks their steps."""

    def __init__(self, context: Context, ranks: ParameterServers) -> None:
        """Make the model with its variables on the servers, and the batch of each rank on its worker."""
        self._ranks = ranks
        data = DATASETS[context.config.dataset.name](context.config, ranks.rank)
        self.learner = Learner(context.config, ranks, data, make_model(context))
        self._step = _with_own_clock(self.learner.train_step)
        self._batches = [self._batch(context, rank) for rank in range(ranks.workers)]
        synchronize_devices()  # caches this rank's devices, wherever it is called from now on

    def _batch(self, context: Context, rank: int) -> Batches:
        with self._ranks.on(rank):
            [batch] = itertools.islice(DATASETS[context.config.dataset.name](context.config, rank).training(0), 1)
        return itertools.repeat(batch)

    def run(self, count: int) -> RankSteps:
        """Run so many steps on every rank, begun together; return them by rank."""
        results = self._ranks.run(lambda rank: run_steps(self._step, self._batches[rank], 1), count)
        return [functools.reduce(operator.add, steps) for steps in results]


def _with_own_clock(step: TrainStep) -> TrainStep:
    """Return a step that returns how long after its begin, by its worker's clock, the local gradients were ready."""

    @tf.function(autograph=False)
    def timed(images: tf.Tensor, labels: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor, tf.Tensor]:
        begun_at = tf.timestamp()
        with tf.control_dependencies([begun_at]):
            loss, correct, computed_at = step(tf.identity(images), labels)
        return loss, correct, computed_at - begun_at

    return timed


def train(context: Context) -> None:
    """Build, train and measure on this rank; measurements are recorded at once.

    Raises ConfigError, NotFinite, PeerLost, RankUnresponsive, or what TensorFlow raises.
    """
    ranks, clock = context.distribution, context.clock
    assert isinstance(ranks, ParameterServers)
    clock.enter("data")  # rank 0 makes the data of all ranks, with the model
    clock.enter("build")
    coordinator = _Coordinator(context, ranks) if ranks.rank == 0 else None
    ranks.barrier()
    clock.enter("broadcast")  # nothing is sent: a variable has one value
    if coordinator:
        roofline.record_work(context, coordinator.learner)
        context.part.add(notes=[_note(context)])
    ranks.barrier()
    time_phases(
        context,
        lambda count: _local_steps(coordinator.run(count) if coordinator and count else None, ranks),
        lambda count: _time_window(context, ranks, coordinator, count),
        lambda losses: _mean_losses(losses, ranks),
    )


def _time_window(context: Context, ranks: ParameterServers, coordinator: _Coordinator | None, count: int) -> TimedSteps:
    """Time the steps of all ranks, from before the coordinator gives them out until it has joined them."""
    clock = context.clock
    clock.announce("timed")
    reading = counters.read_counters(context.meter)
    ranks.barrier()
    if coordinator is None:
        clock.enter("timed")
    ranks.barrier()  # the others have read their clocks: none of their steps begins before
    if coordinator:
        clock.enter("timed")
    begin = time.perf_counter()
    steps = coordinator.run(count) if coordinator else None
    ranks.barrier()
    window_s = time.perf_counter() - begin
    clock.enter("evaluate")
    cores = counters.counted_since(reading, context.meter)
    return TimedSteps(_local_steps(steps, ranks), window_s, cores)


def _local_steps(steps: RankSteps | None, ranks: ParameterServers) -> Steps:
    """Return this rank's steps, from those of all ranks on rank 0; none if it only holds a server."""
    values = [  # read from their worker: no duration mixes its clock with that of rank 0
        ([*map(float, rank_steps.losses)], rank_steps.times_s, [*map(float, rank_steps.computed_at)])
        for rank_steps in steps or []
    ]
    by_rank = ranks.gather(values, list[tuple[list[float], list[float], list[float]]])[0]
    losses, times_s, computed_s = by_rank[ranks.rank] if ranks.rank < len(by_rank) else ([], [], [])
    return Steps(losses, [], times_s, [0.0] * len(times_s), computed_s)  # counted from the begin of each step


def _mean_losses(local: Sequence[tf.Tensor], ranks: ParameterServers) -> list[float]:
    """Return the losses, mean over the workers, up to the first that is not finite on any of them."""
    return finite(np.mean(ranks.gather(list(local), list[float])[: ranks.workers], axis=0))


def _note(context: Context) -> str:
    settings = context.config.distribution
    servers = counted(settings.servers, "parameter server")
    holders = "rank 0" if settings.servers == 1 else f"ranks 0 to {settings.servers - 1}"
    where = f"{servers} on the cores of {holders}, their coordinator on those of rank 0, no other cores"
    if settings.server_nodes:
        cores = settings.servers * (context.config.threads_per_rank or 1)
        nodes = "a separate node" if settings.servers == 1 else "separate nodes"
        where = (
            f"{servers} on {nodes}, with {counted(cores, 'core')} beside those of the ranks; their coordinator "
            "on those of rank 0"
        )
    return f"not synchronous SGD: each rank applied its gradients by itself; {where}"
