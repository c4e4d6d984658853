"""Encoded images to pixels, at no more than the size that is needed: a JPEG can be decoded at 1/2, 1/4 or 1/8."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from train.config.schema import Config
from train.input import augment

if TYPE_CHECKING:
    import tensorflow as tf

Window = Callable[["tf.Tensor", "tf.Tensor"], "tf.Tensor"]  # (height, width) -> (top, left, height, width)

CENTRAL_FRACTION = 0.875  # of height and width: what ImageNet's evaluation looks at (224 of 256)


def _read(encoded: tf.Tensor, size: int, channels: int, window_of: Window | None = None) -> tf.Tensor:
    """The part of the image that `window_of` gives of its height and width, or all of it, stretched to `size`.

    A JPEG is decoded at the smallest scale of 1, 1/2, 1/4, 1/8 at which that part still has `size` pixels, and where it
    is a part, not beyond it. Raises InvalidArgumentError where the image cannot be decoded.
    """
    import tensorflow as tf

    def other() -> tf.Tensor:  # PNG; only a JPEG's header can be read alone
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
            scaled = tf.maximum(window // ratio, [0, 0, 1, 1])  # the window counts in pixels of the scaled image
            return tf.io.decode_and_crop_jpeg(encoded, scaled, channels=channels, ratio=ratio)

        room = tf.minimum(window[2], window[3]) // size
        scales = [(room >= 8, lambda: at(8)), (room >= 4, lambda: at(4)), (room >= 2, lambda: at(2))]
        return tf.case(scales, default=lambda: at(1))

    return tf.image.resize(tf.cond(tf.io.is_jpeg(encoded), jpeg, other), (size, size))


def whole(encoded: tf.Tensor, size: int, channels: int) -> tf.Tensor:
    """All of a JPEG or PNG image, stretched to (size, size, channels), float32, 0 to 255."""
    return _read(encoded, size, channels)


def random_part(encoded: tf.Tensor, size: int, channels: int, numbers: tf.Tensor, smallest_area: float) -> tf.Tensor:
    """A random part (`augment.crop_window`), stretched to (size, size, channels), float32, 0 to 255."""
    return _read(
        encoded, size, channels, lambda height, width: augment.crop_window(numbers, smallest_area, height, width)
    )


def central_window(height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """The largest square in the middle, less its border: (top, left, height, width), int32, in pixels."""
    import tensorflow as tf

    side = tf.cast(tf.round(CENTRAL_FRACTION * tf.cast(tf.minimum(height, width), tf.float32)), tf.int32)
    return tf.stack([(height - side) // 2, (width - side) // 2, side, side])


def central_part(encoded: tf.Tensor, size: int, channels: int) -> tf.Tensor:
    """The middle (`central_window`), at (size, size, channels), float32, 0 to 255."""
    return _read(encoded, size, channels, central_window)


def decoder(config: Config, *, training: bool) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """What makes the model's input, (size, size, channels), float32, 0 to 255, of an encoded image and its draws.

    The whole image, stretched. Where the augmentation takes random parts: such a part, and in validation the middle.
    """
    size, channels, augmentation = config.model.image_size, config.dataset.channels, config.dataset.augmentation
    smallest_area = augmentation.crop_area_fraction if augmentation else 1.0
    if smallest_area == 1.0:
        return lambda encoded, numbers: whole(encoded, size, channels)
    if training:
        return lambda encoded, numbers: random_part(encoded, size, channels, numbers, smallest_area)
    return lambda encoded, numbers: central_part(encoded, size, channels)
