"""What training needs from the communication between ranks, whichever library provides it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Protocol, TypeVar

from train.transport.tcp_group import AllRanks

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf


Function = TypeVar("Function", bound=Callable)
Result = TypeVar("Result")


class Distribution(AllRanks, Protocol):
    """Ranks that train together, as one of them sees them. Every method is called on all of them."""

    local_rank: int

    def scope(self) -> AbstractContextManager[None]:
        """A context in which model and optimizer are made, on all ranks the same variables in the same order."""

    def compiled(self, function: Function) -> Function:
        """The function compiled, as a step of this rank among the others; gradients are exchanged within one only."""

    def on_devices(self, function: Callable[..., Result], *batch: tf.Tensor) -> list[Result]:
        """What the function returns for the equal parts of a batch, one for each device of this rank.

        For use within a compiled function; all tensors of the batch are split along their first axis.
        """

    def local(self, variables: Sequence[tf.Variable]) -> list[tf.Variable]:
        """The variables of this rank alone: reading or setting them exchanges nothing."""

    def tape(self, tape: tf.GradientTape) -> tf.GradientTape:
        """The tape whose gradients are those of the whole job."""

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to the values of rank 0."""

    def average(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to their mean over ranks."""

    def sum(self, values: np.ndarray) -> np.ndarray:
        """The element-wise sum over ranks, on every rank."""

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """The element-wise sum over ranks, on every rank and on the tensor's device; `name` is the same on all."""

    def exchanges(self) -> AbstractContextManager[None]:
        """A context in which a failed exchange raises PeerLost, also one within a compiled step."""

    def group(self, ranks: int, allreduce: bool) -> Distribution:
        """The first `ranks` ranks, with exchanges of their own; without allreduce their gradients stay local.

        Only its members may call the methods of what this returns, and only within its `joined`.
        """

    def apart(self) -> AbstractContextManager[None]:
        """A context in which only groups exchange: what needs all ranks waits until its end."""

    def joined(self) -> AbstractContextManager[None]:
        """A context in which the ranks of a group are joined, for use within `apart`."""

    def leave(self) -> None:
        """Shut down cleanly, when no rank needs another one any more."""


class RankDropped(Exception):
    """The other ranks continue without this one: it was silent for too long."""
