"""Waiting for the devices of this rank."""

from __future__ import annotations

import functools

import tensorflow as tf


def synchronize() -> None:
    """Return when the devices of this rank have done all that they were given.

    TensorFlow's own tf.test.experimental.sync_devices also asks those of the other workers of a strategy, and fails.
    """
    for device in _own():
        with tf.device(device):
            tf.raw_ops.SyncDevice()


@functools.cache
def _own() -> list[str]:
    """The names of this process's devices: those of the task that an operation runs on by itself."""
    here = tf.DeviceSpec.from_string(tf.identity(0.0).device)
    devices = [device.name for device in tf.config.list_logical_devices()]
    place = {name: tf.DeviceSpec.from_string(name) for name in devices}
    return [name for name in devices if (place[name].job, place[name].task) == (here.job, here.task)]
