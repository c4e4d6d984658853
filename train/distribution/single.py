"""One process, without any communication."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from train.distribution.plain import Plain

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf


class Single(Plain):
    """The only rank of a job."""

    rank, size, local_rank = 0, 1, 0

    def tape(self, tape: tf.GradientTape) -> tf.GradientTape:
        """The tape as it is."""
        return tape

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Do nothing."""

    def average(self, variables: Sequence[tf.Variable]) -> None:
        """Do nothing."""

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The values themselves."""
        return values

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """The tensor itself."""
        return tensor

    def gather(self, value: Any, kind: Any) -> list[Any]:
        """A list of this value."""
        return [value]

    def barrier(self) -> None:
        """Do nothing."""

    def exchanges(self) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return nullcontext()

    def group(self, ranks: int, allreduce: bool) -> Single:
        """This process."""
        return self

    def leave(self) -> None:
        """Do nothing."""
