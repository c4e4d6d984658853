"""One process that computes for all ranks, each on its own device (a tower): TensorFlow's CentralStorageStrategy.

In each step every tower computes the gradients of its share of the batch; the CPU, where the variables are, averages
them and applies the mean once. That is synchronous SGD. On GPUs a tower is a GPU, on CPUs a logical device: their
operations share the threads, and so the cores, of the process.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, cast

import tensorflow as tf

from train.config.checks import ConfigError
from train.distribution.base import Function, Result, Single
from train.rank import placement

_VARIABLES_ON = "/CPU:0"


class CentralStorage(Single):
    """The only process of a job, with several towers."""

    def __init__(self, towers: int) -> None:
        """Take this many devices. Raises ConfigError if there are other processes."""
        if (processes := placement.size()) != 1:
            raise ConfigError(
                f"distribution.backend=ps_cpu: this is one of {processes} processes. One alone computes for all "
                f"{towers} ranks: start it without horovodrun and mpirun, or with srun --ntasks=1"
            )
        devices = tf.config.list_logical_devices("GPU") or tf.config.list_logical_devices("CPU")
        names = [device.name for device in devices[:towers]]
        self._strategy = tf.distribute.experimental.CentralStorageStrategy(names, _VARIABLES_ON)

    def scope(self) -> AbstractContextManager[None]:
        """Return the scope of the strategy, whose variables are on the CPU."""
        return self._strategy.scope()

    def compiled(self, function: Function) -> Function:
        """Return the compiled function; what no tower does is done where the variables are."""

        def on_the_cpu(*arguments: tf.Tensor) -> Any:
            with tf.device(_VARIABLES_ON):
                return function(*arguments)

        return super().compiled(cast(Function, on_the_cpu))

    def on_devices(self, function: Callable[..., Result], *batch: tf.Tensor) -> list[Result]:
        """Return the function's results for equal parts of a batch, each computed on its tower."""
        towers = range(self._strategy.num_replicas_in_sync)
        parts = [tf.split(tensor, len(towers)) for tensor in batch]
        results = self._strategy.run(function, [self._one_each(tensors) for tensors in parts])

        def tower_result(tower: int) -> Any:
            return tf.nest.map_structure(lambda value: self._strategy.experimental_local_results(value)[tower], results)

        return [tower_result(tower) for tower in towers]

    def _one_each(self, values: list[tf.Tensor]) -> Any:
        """Return the values as the strategy takes them, one for each tower."""
        return self._strategy.experimental_distribute_values_from_function(
            lambda context: values[context.replica_id_in_sync_group]
        )
