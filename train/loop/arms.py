"""The arms of a launch in rounds, on one rank: their steps, their batches, and the exchange of each by itself."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass, replace

from train.config.schema import Config, RoundArm
from train.context import Context
from train.datasets import DATASETS, Data
from train.distribution.protocol import Distribution
from train.loop.learner import Learner
from train.loop.step import ExchangeStep, TrainStep, make_exchange_step, make_train_step
from train.loop.timed_steps import Batches, endless
from train.rank import placement

_SETTLE_STEPS = 3  # untimed, until reading ahead is as far ahead as it stays


@dataclass(frozen=True)
class Arm:
    """An arm, on a rank that takes part in it."""

    group: Distribution
    step: TrainStep
    batches: Callable[[], AbstractContextManager[Batches]]  # those of one window: nothing is read before or after
    settle_steps: int  # untimed, that it needs before a window


def arms_of(context: Context, learner: Learner) -> list[Arm | None]:
    """The arms on this rank. Arms whose steps are the same share one, which is traced once: `_same_steps`."""
    config, ranks = context.config, context.distribution
    steps: dict[tuple[int, int], TrainStep] = {}
    found: list[Arm | None] = []
    for arm in config.rounds:
        if arm.world != placement.world() or ranks.rank >= arm.ranks:
            found.append(None)
            continue
        group = ranks.group(arm.ranks, arm.allreduce)
        key = (_same_steps(config, arm), arm.batch_per_rank)
        if key not in steps:
            passes, smoothing = arm.backward_passes_per_step, config.optimizer.label_smoothing
            steps[key] = make_train_step(learner.model, learner.optimizer, group, smoothing, passes)
        batches = _batches(arm, _data(context, learner, arm))
        found.append(Arm(group, steps[key], batches, _SETTLE_STEPS if arm.reads else 0))
    return found


def _same_steps(config: Config, arm: RoundArm) -> int:
    """The same for arms of one batch whose compiled steps are the same.

    They are where nothing is exchanged. Where Horovod joins ranks in turn, an exchange is among those that it has
    joined, however many they are: Horovod itself divides by their number when it makes a mean.
    """
    if not is_exchanged(arm):
        return 1
    return config.ranks if config.join_in_turn else arm.ranks


def is_exchanged(arm: RoundArm) -> bool:
    """Whether the ranks of an arm exchange their gradients."""
    return arm.allreduce and arm.ranks > 1


def _data(context: Context, learner: Learner, arm: RoundArm) -> Data:
    """The share of this rank in the data of an arm, whose batch may be another than that of the job's largest point."""
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
    """What gives the batches of a window of an arm."""
    if arm.reads:
        epochs = itertools.count()
        return lambda: _read(data, next(epochs))
    [batch] = itertools.islice(data.training(0), 1)
    return lambda: nullcontext(itertools.repeat(batch))


@contextmanager
def _read(data: Data, epoch: int) -> Iterator[Batches]:
    """Batches from the files, from this epoch on. At the end reading ahead ends too: it would disturb other windows."""
    batches = endless(data, epoch)
    try:
        yield batches
    finally:
        batches.close()


def exchanges_of(context: Context, learner: Learner, arms: Sequence[Arm | None]) -> dict[int, ExchangeStep | None]:
    """The exchange of gradients by itself, by the arm's place: once for each number of ranks and rate of links.

    None on ranks that have no part in it. Empty unless measure.split asks for it.
    """
    of_config = context.config.rounds if context.config.measure.split else []
    first: dict[tuple[int, float | None], int] = {}
    for place, arm in enumerate(of_config):
        if is_exchanged(arm):
            first.setdefault((arm.ranks, arm.link_mbit_per_s), place)
    own = {place: arms[place] for place in first.values()}
    return {place: make_exchange_step(learner.model, arm.group) if arm else None for place, arm in own.items()}
