"""Ranks whose variables and compiled functions are TensorFlow's own, with no strategy around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import tensorflow as tf

Function = TypeVar("Function", bound=Callable)
Result = TypeVar("Result")


class OneDevice:
    """What of `protocol.Distribution` needs nothing where a rank has one device, and all ranks stay joined."""

    def on_devices(self, function: Callable[..., Result], *batch: tf.Tensor) -> list[Result]:
        """What the function returns for the whole batch."""
        return [function(*batch)]

    def apart(self) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return nullcontext()

    def joined(self) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return nullcontext()


class Plain(OneDevice):
    """What of `protocol.Distribution` needs nothing where there is no strategy."""

    def scope(self) -> AbstractContextManager[None]:
        """A context that does nothing."""
        return nullcontext()

    def compiled(self, function: Function) -> Function:
        """The function compiled by itself."""
        import tensorflow as tf  # here: a rank imports this module before TensorFlow's settings are made

        # AutoGraph has nothing to convert here, and would spend 3 s of every first step on the code of Horovod and
        # Keras.
        return tf.function(function, autograph=False)

    def local(self, variables: Sequence[tf.Variable]) -> list[tf.Variable]:
        """The variables themselves."""
        return list(variables)
