"""A gradient tape whose gradients are exchanged with the other ranks, one by one or as a single tensor."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

# Tensors of this rank, each of the shape of the variable with the same index -> those of the job.
Exchange = Callable[[list[tf.Tensor], list[tf.Variable]], list[tf.Tensor]]


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

    def exchange_all(tensors: list[tf.Tensor], variables: list[tf.Variable]) -> list[tf.Tensor]:
        flat = exchange(tf.concat([tf.reshape(tensor, [-1]) for tensor in tensors], 0))
        parts = tf.split(flat, [variable.shape.num_elements() for variable in variables])
        return [tf.reshape(part, variable.shape) for part, variable in zip(parts, variables, strict=True)]

    return exchange_all
