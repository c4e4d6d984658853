"""The arms of a launch in rounds, on one rank: their compiled steps, batches and exchanges, and their first weights."""

import copy
import itertools
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import replace

import tensorflow as tf

from record.recorded_config import RoundArm
from train.config.run_config import RunConfig
from train.datasets import DATASETS, Data
from train.distribution import Distribution, Single
from train.loop.learner import Learner
from train.loop.step import ExchangeStep, TrainStep, make_exchange_step, make_train_steps
from train.loop.timed_steps import Batches, endless
from train.loop.windows import LocalArm, WindowRunner, is_exchanged
from train.rank import placement
from train.task import Context

_SETTLE_STEPS = 3  # untimed, until reading ahead has reached its steady state
_NO_EXCHANGE = 1  # rank: it exchanges nothing

_Shape = tuple[int, int]  # batch of a pass, passes


def window_runner(context: Context, learner: Learner) -> WindowRunner:
    """Return what runs the windows of the arms on this rank. Their steps are made here, and traced when they first run.

    Each window starts from the weights and the optimizer state that the learner has now.
    """
    arms = local_arms(context, learner)
    return WindowRunner(context, arms, restoring(learner.variables()), local_exchanges(context, learner, arms))


def local_arms(context: Context, learner: Learner) -> list[LocalArm | None]:
    """Return the arms on this rank; None for those that it takes no part in."""
    config, ranks = context.config, context.distribution
    groups = [
        ranks.group(arm.ranks, arm.allreduce)
        if arm.rank_group == placement.rank_group() and ranks.rank < arm.ranks
        else None
        for arm in config.launch.rounds
    ]
    steps = _steps(config, learner, groups)
    arms: list[LocalArm | None] = []
    for arm, group in zip(config.launch.rounds, groups, strict=True):
        if group is None:
            arms.append(None)
            continue
        step, local_step = steps[_shape(arm), _exchange(config, arm)], steps.get((_shape(arm), _NO_EXCHANGE))
        batches = _batches(arm, _data(context, learner, arm))
        arms.append(LocalArm(group, step, batches, _SETTLE_STEPS if arm.reads else 0, local_step))
    return arms


def _steps(
    config: RunConfig, learner: Learner, groups: Sequence[Distribution | None]
) -> dict[tuple[_Shape, int], TrainStep]:
    """Return the steps of the arms on this rank, by their shape and their exchange.

    If gradients are exchanged as one tensor, all steps that compute the same are one compiled function: the exchange
    begins when all gradients are ready, so the computation before it is the same. Gradients that are exchanged one by
    one, or in groups, are sent while others are computed: those steps are separate functions.
    """
    exchanges: dict[_Shape, dict[int, Distribution]] = {}
    for arm, group in zip(config.launch.rounds, groups, strict=True):
        if group:
            exchanges.setdefault(_shape(arm), {}).setdefault(_exchange(config, arm), group)
    steps: dict[tuple[_Shape, int], TrainStep] = {}
    for shape, by_exchange in exchanges.items():
        if shared := config.distribution.gradients == "flat":
            by_exchange.setdefault(_NO_EXCHANGE, Single())
        for at_once in [by_exchange] if shared else [{key: group} for key, group in by_exchange.items()]:
            smoothing, passes = config.optimizer.label_smoothing, shape[1]
            compiled = make_train_steps(learner.model, learner.optimizer, list(at_once.values()), smoothing, passes)
            steps |= {(shape, key): step for key, step in zip(at_once, compiled, strict=True)}
    return steps


def _shape(arm: RoundArm) -> _Shape:
    """Return the values that determine the computation of an arm: the batch of a pass, and the passes of a step."""
    return arm.batch_per_rank, arm.backward_passes_per_step


def _exchange(config: RunConfig, arm: RoundArm) -> int:
    """Return a number that is equal for arms whose compiled exchanges are the same.

    If Horovod joins one group after the other, an exchange is among the joined ranks, however many they are: Horovod
    divides by their number itself when it computes a mean.
    """
    if not is_exchanged(arm):
        return _NO_EXCHANGE
    return config.ranks if config.launch.join_in_turn else arm.ranks


def _data(context: Context, learner: Learner, arm: RoundArm) -> Data:
    """Return this rank's share of the data of an arm, whose batch may differ from that of the largest point."""
    config, rank, size = context.config, context.distribution.rank, arm.batch_per_rank
    passes = arm.backward_passes_per_step
    if size == config.batch_per_rank:
        data = copy.copy(learner.data)
    else:
        data = DATASETS[config.dataset.name](
            replace(config, batch_per_rank=size, global_batch=size * passes * config.ranks), rank
        )
    data.share_out(rank, arm.ranks)
    return data


def _batches(arm: RoundArm, data: Data) -> Callable[[], AbstractContextManager[Batches]]:
    """Return a function that returns the batches of a window of an arm."""
    if arm.reads:
        epochs = itertools.count()
        return lambda: closing(endless(data, next(epochs)))  # reading ahead would disturb the windows of others
    [batch] = itertools.islice(data.training(0), 1)
    return lambda: nullcontext(itertools.repeat(batch))


def local_exchanges(
    context: Context, learner: Learner, arms: Sequence[LocalArm | None]
) -> dict[int, ExchangeStep | None]:
    """Return the exchange of gradients by itself, by the arm's index: once for each number of ranks and rate of links.

    None on ranks that have no part in it. Empty without measure.split.
    """
    config_arms = context.config.launch.rounds if context.config.measure.split else ()
    first: dict[tuple[int, float | None], int] = {}
    for index, arm in enumerate(config_arms):
        if is_exchanged(arm):
            first.setdefault((arm.ranks, arm.link_mbit_per_s), index)
    local = {index: arms[index] for index in first.values()}
    return {index: make_exchange_step(learner.model, arm.group) if arm else None for index, arm in local.items()}


def restoring(variables: Sequence[tf.Variable]) -> Callable[[], None]:
    """Return a function that sets the variables to the values that they have now.

    The copies are in separate memory: else the first step that changes a variable would copy it. A thousand raw
    operations take 0.05 s of CPU time; as methods of the variables they take ten times as long, and a function of them
    takes a second to compile.
    """
    pairs = [(variable.handle, tf.identity(variable)) for variable in variables]

    def restore() -> None:
        for handle, value in pairs:
            tf.raw_ops.AssignVariableOp(resource=handle, value=tf.raw_ops.DeepCopy(x=value))

    return restore
