"""What training needs from the communication between ranks; the ranks of a job that needs none; exchanging tapes."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import numpy as np
    import tensorflow as tf

    # Tensors of this rank, each of the shape of the variable with the same index -> those of the job.
    Exchange = Callable[[list[tf.Tensor], list[tf.Variable]], list[tf.Tensor]]

Function = TypeVar("Function", bound=Callable)
Result = TypeVar("Result")


class Distribution(ABC):
    """Ranks that train together, as one of them sees them. All ranks call each method."""

    rank: int
    size: int
    local_rank: int

    def scope(self) -> AbstractContextManager[None]:
        """Return a context for making model and optimizer: on all ranks the same variables in the same order."""
        return nullcontext()

    def compiled(self, function: Function) -> Function:
        """Return the compiled function, a step of this rank among the others; only within one gradients are exchanged.

        AutoGraph has nothing to convert here, and would spend 3 s of every first step on Horovod's and Keras' code.
        """
        import tensorflow as tf  # here: a rank imports this module before TensorFlow's settings are made

        return tf.function(function, autograph=False)

    def on_devices(self, function: Callable[..., Result], *batch: tf.Tensor) -> list[Result]:
        """Return the function's results for equal parts of a batch, one for each device of this rank.

        For use within a compiled function; all tensors of the batch are split along their first axis.
        """
        return [function(*batch)]

    def local(self, variables: Sequence[tf.Variable]) -> list[tf.Variable]:
        """Return the variables of this rank alone: reading or setting them exchanges nothing."""
        return list(variables)

    @abstractmethod
    def tape(self, tape: tf.GradientTape) -> tf.GradientTape:
        """Return a tape whose gradients are those of the whole job."""

    @abstractmethod
    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to the values of rank 0."""

    @abstractmethod
    def average(self, variables: Sequence[tf.Variable]) -> None:
        """Set the variables to their mean over ranks."""

    @abstractmethod
    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the element-wise sum over ranks, on every rank."""

    @abstractmethod
    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Return the element-wise sum over ranks, on every rank and the tensor's device; `name` is the same on all."""

    @abstractmethod
    def gather(self, value: Any, kind: Any) -> list[Any]:
        """Return the values of all ranks, in the order of ranks, on every rank. kind: their type."""

    @abstractmethod
    def barrier(self) -> None:
        """Return when all ranks have called it."""

    def exchanges(self) -> AbstractContextManager[None]:
        """Return a context in which a failed exchange, also one within a compiled step, raises PeerLost."""
        return nullcontext()

    def group(self, ranks: int, allreduce: bool) -> Distribution:
        """Return the first `ranks` ranks, to exchange among themselves; without allreduce their gradients stay local.

        Only its members may call its methods, and only within its `joined`.
        """
        raise NotImplementedError("only Horovod's ranks form groups: no launch in rounds is planned for a strategy")

    def apart(self) -> AbstractContextManager[None]:
        """Return a context in which only groups exchange: what needs all ranks waits until its end."""
        return nullcontext()

    def joined(self) -> AbstractContextManager[None]:
        """Return a context in which the ranks of a group are joined, for use within `apart`."""
        return nullcontext()

    def leave(self) -> None:
        """Shut down cleanly, when no rank needs another one any more."""
        return


class Single(Distribution):
    """The only rank of a job."""

    rank, size, local_rank = 0, 1, 0

    def tape(self, tape: tf.GradientTape) -> tf.GradientTape:
        """Return the tape unchanged."""
        return tape

    def broadcast(self, variables: Sequence[tf.Variable]) -> None:
        """Do nothing."""

    average = broadcast

    def sum(self, values: np.ndarray) -> np.ndarray:
        """Return the values."""
        return values

    def allreduce(self, tensor: tf.Tensor, name: str) -> tf.Tensor:
        """Return the tensor."""
        return tensor

    def gather(self, value: Any, kind: Any) -> list[Any]:
        """Return a list of this value."""
        return [value]

    def barrier(self) -> None:
        """Do nothing."""

    def group(self, ranks: int, allreduce: bool) -> Single:
        """Return this rank."""
        return self


class ExchangingTape:
    """A gradient tape that exchanges gradients before it returns them, as Horovod's tape does."""

    def __init__(self, tape: tf.GradientTape, exchange: Exchange) -> None:
        """Exchange the gradients of this tape."""
        self._tape, self._exchange = tape, exchange

    def __getattr__(self, name: str) -> Any:
        """Return any other attribute of the tape."""
        return getattr(self._tape, name)

    def gradient(self, target: tf.Tensor, sources: Sequence[tf.Variable]) -> list[tf.Tensor | None]:
        """Return the job's gradient for each source; None, on all ranks, where the target does not use it."""
        gradients = self._tape.gradient(target, sources)
        used = [index for index, gradient in enumerate(gradients) if gradient is not None]
        exchanged = self._exchange([gradients[index] for index in used], [sources[index] for index in used])
        for index, gradient in zip(used, exchanged, strict=True):
            gradients[index] = gradient
        return gradients


def flat_exchange(exchange: Callable[[tf.Tensor], tf.Tensor]) -> Exchange:
    """Return an exchange of tensors of one type as a single tensor, which holds their values one after the other.

    Many times a second Horovod's ranks tell each other which of all tensors that they ever exchanged are ready again, a
    bit for each, in messages of 64 bits: one tensor needs one message. See docs/tuning.md.
    """
    import tensorflow as tf

    def exchange_all(tensors: list[tf.Tensor], variables: list[tf.Variable]) -> list[tf.Tensor]:
        flat = exchange(tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0))
        parts = tf.split(flat, [variable.shape.num_elements() for variable in variables])
        return [tf.reshape(part, variable.shape) for part, variable in zip(parts, variables, strict=True)]

    return exchange_all
