"""Ranks whose number may change while they train: Horovod's elastic mode."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any, TypeVar

import horovod.tensorflow as hvd
from horovod.common.elastic import ObjectState, run_fn
from horovod.tensorflow.functions import broadcast_object

from train.distribution.horovod import Horovod
from train.distribution.protocol import IMPORT_WITHIN_S, LeftBehind

_TIMEOUT = "HOROVOD_GLOO_TIMEOUT_SECONDS"
LOST_AFTER_S = 10  # a rank that is silent for so long during an exchange is lost

State = ObjectState  # what is committed: it must be able to save, restore and sync itself
S = TypeVar("S")  # a State
Result = TypeVar("Result")


class ElasticHorovod(Horovod):
    """Ranks that may become fewer or more."""

    def meet(self) -> None:
        """Meet the other ranks with a long timeout, then once more with the short one that training needs.

        Horovod has one timeout for the meeting and for all exchanges after it, and reads it when it starts.
        """
        os.environ[_TIMEOUT] = str(IMPORT_WITHIN_S)
        super().meet()
        hvd.shutdown()
        os.environ[_TIMEOUT] = str(LOST_AFTER_S)
        super().meet()

    def meet_again(self) -> None:
        """Meet the ranks that are there now. Raises LeftBehind where they continue without this one."""
        hvd.shutdown()
        try:
            self.meet()
        except ValueError as error:
            raise LeftBehind(f"rank {self.rank} cannot meet the others: {error}") from error

    def broadcast_object(self, value: Any) -> Any:
        """The value of rank 0, on every rank."""
        with self.exchanges():
            return broadcast_object(value)

    def run(self, train: Callable[[S], Result], state: S, meet_again: Callable[[], None]) -> Result:
        """The result of `train(state)`, which is called again whenever the ranks have changed.

        Where a rank is lost `state` is restored to what was committed last; where one came it stays. Then `meet_again`
        is called, and `state` is synchronized with rank 0.
        """

        def watched(state: S) -> Result:
            with self.exchanges():
                return train(state)

        return run_fn(watched, meet_again)(state)
