"""Asynchronous training on parameter servers: rank 0 gives every rank its steps, all others serve.

Phases, timing and records are those of synchronous training (train/loop/timed_steps.py), without values that have no
meaning here: steps of different ranks do not belong together, and there is one set of weights.
"""

import functools
import itertools
import operator
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import tensorflow as tf

from train.datasets import DATASETS
from train.distribution.parameter_servers import ParameterServers
from train.loop import roofline
from train.loop.learner import Learner
from train.loop.step import TrainStep, synchronize_devices
from train.loop.timed_steps import Batches, Steps, finite, require_finite, run_steps
from train.loop.training import make_model
from train.rank import counters
from train.task import Context

RankSteps = list[Steps]  # the steps of each rank


@dataclass(frozen=True)
class _StepValues:
    """The values of a rank's steps, which rank 0 sends it."""

    step_times_s: list[float]
    compute_times_s: list[float]
    losses: list[float]


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
    ranks, clock, part = context.distribution, context.clock, context.part
    assert isinstance(ranks, ParameterServers)
    settings = context.config.measure
    clock.enter("data")  # rank 0 makes the data of all ranks, with the model
    clock.enter("build")
    coordinator = _Coordinator(context, ranks) if ranks.rank == 0 else None
    ranks.barrier()
    clock.enter("broadcast")  # nothing is sent: a variable has one value
    if coordinator:
        roofline.record_work(context, coordinator.learner)
    ranks.barrier()
    clock.enter("first_step")
    first = _steps(coordinator, ranks, 1)
    context.gate.wait_for_quota()
    clock.enter("warm_up")
    warm_up = _steps(coordinator, ranks, settings.warm_up_steps)
    part.add(warm_up_step_times_s=warm_up.step_times_s)
    losses = _losses([*first.losses, *warm_up.losses], ranks)
    require_finite(losses, 1 + settings.warm_up_steps, before=0)
    _time(context, ranks, coordinator)


def _time(context: Context, ranks: ParameterServers, coordinator: _Coordinator | None) -> None:
    """Time the steps of all ranks, from before the coordinator gives them out until it has joined them."""
    settings, clock, part = context.config.measure, context.clock, context.part
    clock.announce("timed")
    reading = counters.read_counters(context.meter)
    ranks.barrier()
    if coordinator is None:
        clock.enter("timed")
    ranks.barrier()  # the others have read their clocks: none of their steps begins before
    if coordinator:
        clock.enter("timed")
    steps = coordinator.run(settings.timed_steps) if coordinator else None
    ranks.barrier()
    clock.enter("evaluate")
    timed = _local_steps(steps, ranks)
    part.add(step_times_s=timed.step_times_s, timed_cores=counters.counted_since(reading, context.meter))
    if context.config.device == "cpu":
        part.add(compute_times_s=timed.compute_times_s)
    roofline.measure(context, ranks)
    context.gate.release()
    losses = _losses(timed.losses, ranks)
    if ranks.rank == 0:
        part.add(losses=losses, notes=[_note(context)])
    require_finite(losses, settings.timed_steps, before=1 + settings.warm_up_steps)


def _steps(coordinator: _Coordinator | None, ranks: ParameterServers, count: int) -> _StepValues:
    """Run so many steps on every rank; return those of this rank."""
    return _local_steps(coordinator.run(count) if coordinator and count else None, ranks)


def _local_steps(steps: RankSteps | None, ranks: ParameterServers) -> _StepValues:
    """Return this rank's steps, from those of all ranks on rank 0; none if it only holds a server."""
    values = [  # read from their worker: no duration mixes its clock with that of rank 0
        _StepValues(rank_steps.times_s, [*map(float, rank_steps.computed_at)], [*map(float, rank_steps.losses)])
        for rank_steps in steps or []
    ]
    by_rank = ranks.gather(values, list[_StepValues])[0]
    return by_rank[ranks.rank] if ranks.rank < len(by_rank) else _StepValues([], [], [])


def _losses(local: Sequence[float], ranks: ParameterServers) -> list[float]:
    """Return the losses, mean over the workers, up to the first that is not finite on any of them."""
    return finite(np.mean(ranks.gather(list(local), list[float])[: ranks.workers], axis=0))


def _note(context: Context) -> str:
    settings = context.config.distribution
    servers = f"{settings.servers} parameter server{'s' * (settings.servers > 1)}"
    holders = "rank 0" if settings.servers == 1 else f"ranks 0 to {settings.servers - 1}"
    where = f"{servers} on the cores of {holders}, their coordinator on those of rank 0, no other cores"
    if settings.server_nodes:
        cores = settings.servers * (context.config.threads_per_rank or 1)
        nodes = "a separate node" if settings.servers == 1 else "separate nodes"
        where = (
            f"{servers} on {nodes}, with {cores} core{'s' * (cores > 1)} beside those of the ranks; their coordinator "
            "on those of rank 0"
        )
    return f"not synchronous SGD: each rank applied its gradients by itself; {where}"
