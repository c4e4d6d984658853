"""Encoded images to pixels, at no more than the size that is needed: a JPEG can be decoded at 1/2, 1/4 or 1/8."""

from __future__ import annotations

from typing import TYPE_CHECKING

from train.input import augment

if TYPE_CHECKING:
    import tensorflow as tf

CENTRAL_FRACTION = 0.875  # of height and width: what ImageNet's evaluation looks at (224 of 256)


def _size(encoded: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Height and width. Only a JPEG's header can be read alone; other images are decoded for it."""
    import tensorflow as tf

    shape = tf.cond(
        tf.io.is_jpeg(encoded),
        lambda: tf.image.extract_jpeg_shape(encoded),
        lambda: tf.shape(tf.io.decode_png(encoded, channels=3)),
    )
    return shape[0], shape[1]


def _decode(encoded: tf.Tensor, channels: int, window: tf.Tensor, whole: bool, size: int) -> tf.Tensor:
    """The part `window` (top, left, height, width) at the smallest scale of 1, 1/2, 1/4, 1/8 that still has `size`."""
    import tensorflow as tf

    def png() -> tf.Tensor:
        pixels = tf.io.decode_png(encoded, channels=channels)
        return pixels if whole else tf.slice(pixels, [window[0], window[1], 0], [window[2], window[3], channels])

    def jpeg(ratio: int) -> tf.Tensor:
        # Plain integer upsampling and the fast transform change a pixel by a few levels of 255, and save a fifth.
        options = {"channels": channels, "ratio": ratio, "fancy_upscaling": False, "dct_method": "INTEGER_FAST"}
        if whole:
            return tf.io.decode_jpeg(encoded, **options)
        # The window counts in pixels of the scaled image.
        return tf.io.decode_and_crop_jpeg(encoded, tf.maximum(window // ratio, [0, 0, 1, 1]), **options)

    room = tf.minimum(window[2], window[3]) // size
    return tf.case(
        [
            (tf.logical_not(tf.io.is_jpeg(encoded)), png),
            (room >= 8, lambda: jpeg(8)),
            (room >= 4, lambda: jpeg(4)),
            (room >= 2, lambda: jpeg(2)),
        ],
        default=lambda: jpeg(1),
    )


def whole(encoded: tf.Tensor, size: int, channels: int) -> tf.Tensor:
    """All of a JPEG or PNG image, stretched to (size, size, channels), float32, 0 to 255.

    Raises InvalidArgumentError where it cannot be decoded.
    """
    import tensorflow as tf

    height, width = _size(encoded)
    window = tf.stack([0, 0, height, width])
    return tf.image.resize(_decode(encoded, channels, window, True, size), (size, size))


def random_part(encoded: tf.Tensor, size: int, channels: int, numbers: tf.Tensor, smallest_area: float) -> tf.Tensor:
    """A random part (`augment.crop_window`), stretched to (size, size, channels), float32, 0 to 255."""
    import tensorflow as tf

    window = augment.crop_window(numbers, smallest_area, *_size(encoded))
    return tf.image.resize(_decode(encoded, channels, window, False, size), (size, size))


def central_part(encoded: tf.Tensor, size: int, channels: int) -> tf.Tensor:
    """The largest square in the middle, less its border, at (size, size, channels), float32, 0 to 255."""
    import tensorflow as tf

    height, width = _size(encoded)
    side = tf.cast(tf.round(CENTRAL_FRACTION * tf.cast(tf.minimum(height, width), tf.float32)), tf.int32)
    window = tf.stack([(height - side) // 2, (width - side) // 2, side, side])
    return tf.image.resize(_decode(encoded, channels, window, False, size), (size, size))
