"""Encoded images to pixels, at no larger scale than is needed: a JPEG can be decoded at 1/2, 1/4 or 1/8."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from train.config.schema import RunConfig
from train.input import augment

if TYPE_CHECKING:
    import tensorflow as tf

Window = Callable[["tf.Tensor", "tf.Tensor"], "tf.Tensor"]  # (height, width) -> (top, left, height, width)

CENTRAL_FRACTION = 0.875  # of the shorter side: the crop of ImageNet's evaluation (224 of 256)


def _read(encoded: tf.Tensor, size: int, channels: int, window_of: Window | None = None) -> tf.Tensor:
    """The window of the image that `window_of` computes, or all of it, stretched to (size, size, channels).

    A JPEG is decoded at the smallest scale of 1, 1/2, 1/4, 1/8 at which the window still has `size` pixels, and only
    inside the window. Raises InvalidArgumentError if the image cannot be decoded.
    """
    import tensorflow as tf

    def png() -> tf.Tensor:  # decoded as a whole: TensorFlow reads only the header of a JPEG separately
        pixels = tf.io.decode_png(encoded, channels=channels)
        if window_of is None:
            return pixels
        shape = tf.shape(pixels)
        top, left, height, width = tf.unstack(window_of(shape[0], shape[1]))
        return pixels[top : top + height, left : left + width]

    def jpeg() -> tf.Tensor:
        shape = tf.image.extract_jpeg_shape(encoded)
        window = tf.stack([0, 0, shape[0], shape[1]]) if window_of is None else window_of(shape[0], shape[1])

        def at(ratio: int) -> tf.Tensor:
            if window_of is None:
                return tf.io.decode_jpeg(encoded, channels=channels, ratio=ratio)
            scaled = tf.maximum(window // ratio, [0, 0, 1, 1])  # in pixels of the scaled image
            return tf.io.decode_and_crop_jpeg(encoded, scaled, channels=channels, ratio=ratio)

        room = tf.minimum(window[2], window[3]) // size
        scales = [(room >= 8, lambda: at(8)), (room >= 4, lambda: at(4)), (room >= 2, lambda: at(2))]
        return tf.case(scales, default=lambda: at(1))

    return tf.image.resize(tf.cond(tf.io.is_jpeg(encoded), jpeg, png), (size, size))


def whole(encoded: tf.Tensor, size: int, channels: int) -> tf.Tensor:
    """All of a JPEG or PNG image, stretched to (size, size, channels), float32, 0 to 255."""
    return _read(encoded, size, channels)


def random_part(encoded: tf.Tensor, size: int, channels: int, numbers: tf.Tensor, smallest_area: float) -> tf.Tensor:
    """A random window (`augment.crop_window`), stretched to (size, size, channels), float32, 0 to 255."""
    return _read(
        encoded, size, channels, lambda height, width: augment.crop_window(numbers, smallest_area, height, width)
    )


def central_window(height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """A central square, CENTRAL_FRACTION of the shorter side: (top, left, height, width), int32, in pixels."""
    import tensorflow as tf

    side = tf.cast(tf.round(CENTRAL_FRACTION * tf.cast(tf.minimum(height, width), tf.float32)), tf.int32)
    return tf.stack([(height - side) // 2, (width - side) // 2, side, side])


def central_part(encoded: tf.Tensor, size: int, channels: int) -> tf.Tensor:
    """The central window, resized to (size, size, channels), float32, 0 to 255."""
    return _read(encoded, size, channels, central_window)


def decoder(config: RunConfig, *, training: bool) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """A function from an encoded image and its draws to pixels: (size, size, channels), float32, 0 to 255.

    It stretches the whole image; if the augmentation crops, a random window, and in validation the central one.
    """
    size, channels, augmentation = config.model.image_size, config.dataset.channels, config.dataset.augmentation
    smallest_area = augmentation.crop_area_fraction if augmentation else 1.0
    if smallest_area == 1.0:
        return lambda encoded, numbers: whole(encoded, size, channels)
    if training:
        return lambda encoded, numbers: random_part(encoded, size, channels, numbers, smallest_area)
    return lambda encoded, numbers: central_part(encoded, size, channels)
