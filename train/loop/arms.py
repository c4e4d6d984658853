"""The arms of a launch in rounds, on one rank: their steps, their batches, and the exchange of each by itself."""

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from train.config.schema import RoundArm, RunConfig
from train.datasets import DATASETS, Data
from train.distribution import Distribution, Single
from train.loop.learner import Learner
from train.loop.step import ExchangeStep, TrainStep, make_exchange_step, make_train_steps
from train.loop.timed_steps import Batches, endless
from train.rank import placement
from train.task import Context

_SETTLE_STEPS = 3  # untimed, until reading ahead is as far ahead as it stays
_NONE = 1  # rank exchanges nothing

_Shape = tuple[int, int]  # batch of a pass, passes


@dataclass(frozen=True)
class Arm:
    """An arm, on a rank that takes part in it."""

    group: Distribution
    step: TrainStep
    batches: Callable[[], AbstractContextManager[Batches]]  # those of one window: nothing is read before or after
    settle_steps: int  # untimed, that it needs before a window
    local_step: TrainStep | None  # of the same compiled function, without exchange; None where it has none


def local_arms(context: Context, learner: Learner) -> list[Arm | None]:
    """Return the arms on this rank; None for those that it takes no part in."""
    config, ranks = context.config, context.distribution
    groups = [
        ranks.group(arm.ranks, arm.allreduce)
        if arm.rank_group == placement.rank_group() and ranks.rank < arm.ranks
        else None
        for arm in config.launch.rounds
    ]
    steps = _steps(config, learner, groups)
    arms: list[Arm | None] = []
    for arm, group in zip(config.launch.rounds, groups, strict=True):
        if group is None:
            arms.append(None)
            continue
        step, local_step = steps[_shape(arm), _exchange(config, arm)], steps.get((_shape(arm), _NONE))
        batches = _batches(arm, _data(context, learner, arm))
        arms.append(Arm(group, step, batches, _SETTLE_STEPS if arm.reads else 0, local_step))
    return arms


def _steps(
    config: RunConfig, learner: Learner, groups: Sequence[Distribution | None]
) -> dict[tuple[_Shape, int], TrainStep]:
    """Return the steps of the arms on this rank, by what a step computes and what it exchanges.

    All steps that compute the same are one compiled function, where each exchanges its gradients as one tensor. Such an
    exchange begins when all gradients are there: which one it is changes nothing before it. Gradients that are
    exchanged one by one, or in groups, are sent while others are computed: those steps are separate functions.
    """
    exchanges: dict[_Shape, dict[int, Distribution]] = {}
    for arm, group in zip(config.launch.rounds, groups, strict=True):
        if group:
            exchanges.setdefault(_shape(arm), {}).setdefault(_exchange(config, arm), group)
    steps: dict[tuple[_Shape, int], TrainStep] = {}
    for shape, by_exchange in exchanges.items():
        if shared := config.distribution.gradients == "flat":
            by_exchange.setdefault(_NONE, Single())
        for together in [by_exchange] if shared else [{key: group} for key, group in by_exchange.items()]:
            smoothing, passes = config.optimizer.label_smoothing, shape[1]
            compiled = make_train_steps(learner.model, learner.optimizer, list(together.values()), smoothing, passes)
            steps |= {(shape, key): step for key, step in zip(together, compiled, strict=True)}
    return steps


def _shape(arm: RoundArm) -> _Shape:
    """Return what decides which gradients an arm computes: the batch of a pass, and the passes of a step."""
    return arm.batch_per_rank, arm.backward_passes_per_step


def _exchange(config: RunConfig, arm: RoundArm) -> int:
    """Return a number that is the same for arms whose compiled exchanges are the same.

    If Horovod joins one group after the other, an exchange is among those that it has joined, however many they are:
    Horovod itself divides by their number when it makes a mean.
    """
    if not is_exchanged(arm):
        return _NONE
    return config.ranks if config.launch.join_in_turn else arm.ranks


def is_exchanged(arm: RoundArm) -> bool:
    """Return whether the ranks of an arm exchange their gradients."""
    return arm.allreduce and arm.ranks > 1


def _data(context: Context, learner: Learner, arm: RoundArm) -> Data:
    """Return this rank's share in the data of an arm, whose batch may differ from that of the job's largest point."""
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
    """Return a function that gives the batches of a window of an arm."""
    if arm.reads:
        epochs = itertools.count()
        return lambda: _read(data, next(epochs))
    [batch] = itertools.islice(data.training(0), 1)
    return lambda: nullcontext(itertools.repeat(batch))


@contextmanager
def _read(data: Data, epoch: int) -> Iterator[Batches]:
    """Yield batches from the files from this epoch on. Reading ahead ends with them: it would disturb other windows."""
    batches = endless(data, epoch)
    try:
        yield batches
    finally:
        batches.close()


def local_exchanges(context: Context, learner: Learner, arms: Sequence[Arm | None]) -> dict[int, ExchangeStep | None]:
    """Return the exchange of gradients by itself, by the arm's index: once for each number of ranks and rate of links.

    None on ranks that have no part in it. Empty unless measure.split asks for it.
    """
    listed = context.config.launch.rounds if context.config.measure.split else ()
    first: dict[tuple[int, float | None], int] = {}
    for index, arm in enumerate(listed):
        if is_exchanged(arm):
            first.setdefault((arm.ranks, arm.link_mbit_per_s), index)
    own = {index: arms[index] for index in first.values()}
    return {index: make_exchange_step(learner.model, arm.group) if arm else None for index, arm in own.items()}
