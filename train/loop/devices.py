"""Waiting for the devices of this rank."""

import functools


def synchronize_devices() -> None:
    """Return when the devices of this rank have done all their work.

    TensorFlow's own tf.test.experimental.sync_devices also asks those of the other workers of a strategy, and fails.
    """
    import tensorflow as tf  # here and in the modules that time steps: their tests need no TensorFlow

    for device in _local_devices():
        with tf.device(device):
            tf.raw_ops.SyncDevice()


@functools.cache
def _local_devices() -> list[str]:
    """Return the names of this process's devices: those of the task that an operation runs on by itself."""
    import tensorflow as tf

    current = tf.DeviceSpec.from_string(tf.identity(0.0).device)
    devices = [device.name for device in tf.config.list_logical_devices()]
    specs = {name: tf.DeviceSpec.from_string(name) for name in devices}
    return [name for name, spec in specs.items() if (spec.job, spec.task) == (current.job, current.task)]
