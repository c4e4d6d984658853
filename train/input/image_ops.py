"""Encoded images to augmented pixels: pure functions of an image, the settings, and random numbers drawn beforehand.

The numbers belong to a sample in an epoch, not to a rank: a sample looks the same on any number of ranks. An image is
decoded at the smallest sufficient scale: a JPEG can be decoded at 1/2, 1/4 or 1/8.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from train.config.run_config import RunConfig
from train.config.training_config import AugmentationConfig

if TYPE_CHECKING:
    import tensorflow as tf

# The columns of the draws, each uniform in [0, 1).
DRAWS = ("flip", "shift_x", "shift_y", "zoom", "rotation", "crop_area", "crop_aspect", "crop_x", "crop_y")
_AUGMENTATION_STREAM = 1  # differs from the stream of shuffling, which has only seed and epoch


def draws(samples: int, seed: int, epoch: int) -> np.ndarray:
    """Return the random numbers of all samples in one epoch: shape (samples, len(DRAWS)), float32."""
    return np.random.default_rng([seed, epoch, _AUGMENTATION_STREAM]).random((samples, len(DRAWS)), np.float32)


def _column(numbers: tf.Tensor, name: str) -> tf.Tensor:
    return numbers[..., DRAWS.index(name)]


def transforms(numbers: tf.Tensor, settings: AugmentationConfig, height: int, width: int) -> tf.Tensor:
    """Return affine maps from output to source pixels about the centre, (..., 8), for ImageProjectiveTransformV3.

    The source of (x, y) is (a0 x + a1 y + a2, b0 x + b1 y + b2). Zoomed in by z, neighbours are 1/z source pixels
    apart. Shifts are whole pixels from -m to m, all equally likely, where m is the fraction of the size, rounded.
    """
    import tensorflow as tf

    def shift(name: str, size: int) -> tf.Tensor:
        maximum = round(settings.shift_fraction * size)
        return tf.floor(_column(numbers, name) * (2 * maximum + 1)) - maximum

    step = 1.0 / (1.0 + settings.zoom_in_fraction * _column(numbers, "zoom"))
    angle = math.radians(settings.rotation_degrees) * (2.0 * _column(numbers, "rotation") - 1.0)
    cosine, sine = step * tf.cos(angle), step * tf.sin(angle)
    middle_x, middle_y = (width - 1) / 2, (height - 1) / 2
    from_x = middle_x - cosine * middle_x + sine * middle_y + shift("shift_x", width)
    from_y = middle_y - sine * middle_x - cosine * middle_y + shift("shift_y", height)
    zero = tf.zeros_like(cosine)
    return tf.stack([cosine, -sine, from_x, sine, cosine, from_y, zero, zero], axis=-1)


def augment(image: tf.Tensor, numbers: tf.Tensor, settings: AugmentationConfig) -> tf.Tensor:
    """Return the image (height, width, channels), float32, flipped, shifted, zoomed and rotated, in the same shape."""
    import tensorflow as tf

    if settings.flip:
        # TensorFlow reverses the columns of one image with three channels twice as fast as those of a batch, and
        # `where` between two batches costs fifteen times as much again.
        original = image
        image = tf.cond(_column(numbers, "flip") < 0.5, lambda: tf.reverse(original, [1]), lambda: original)
    if settings.shift_fraction or settings.zoom_in_fraction or settings.rotation_degrees:
        height, width = image.shape[:2]
        image = tf.raw_ops.ImageProjectiveTransformV3(
            images=image[None],
            transforms=transforms(numbers, settings, height, width)[None],
            output_shape=[height, width],
            fill_value=0.0,
            interpolation="BILINEAR",
            fill_mode={"nearest": "NEAREST", "zero": "CONSTANT"}[settings.fill],
        )[0]
    return image


def crop_window(numbers: tf.Tensor, smallest_area: float, height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Return a random window of an image: (top, left, height, width), int32, in pixels.

    Its area is the fraction `smallest_area` to 1 of the image's, its aspect ratio 3/4 to 4/3 (uniform in the
    logarithm), as in Szegedy et al. 2015 (1409.4842), section 6; it is clipped to the image.
    """
    import tensorflow as tf

    height, width = tf.cast(height, tf.float32), tf.cast(width, tf.float32)
    area = height * width * (smallest_area + (1.0 - smallest_area) * _column(numbers, "crop_area"))
    aspect = tf.exp(math.log(4 / 3) * (2.0 * _column(numbers, "crop_aspect") - 1.0))
    crop_width = tf.clip_by_value(tf.round(tf.sqrt(area * aspect)), 1.0, width)
    crop_height = tf.clip_by_value(tf.round(tf.sqrt(area / aspect)), 1.0, height)
    left = tf.floor((width - crop_width + 1.0) * _column(numbers, "crop_x"))
    top = tf.floor((height - crop_height + 1.0) * _column(numbers, "crop_y"))
    return tf.cast(tf.stack([top, left, crop_height, crop_width]), tf.int32)


Window = Callable[["tf.Tensor", "tf.Tensor"], "tf.Tensor"]  # (height, width) -> (top, left, height, width)

CENTRAL_FRACTION = 0.875  # of the shorter side: the crop of ImageNet's evaluation (224 of 256)


def read_image(encoded: tf.Tensor, size: int, channels: int, window_of: Window | None = None) -> tf.Tensor:
    """Return the window of a JPEG or PNG image that `window_of` computes, or all of it, stretched.

    Its shape is (size, size, channels), float32, 0 to 255. A JPEG is decoded at the smallest scale of 1, 1/2, 1/4, 1/8
    at which the window still has `size` pixels, and only inside the window. Raises InvalidArgumentError if the image
    cannot be decoded.
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

        def decode(ratio: int) -> tf.Tensor:
            if window_of is None:
                return tf.io.decode_jpeg(encoded, channels=channels, ratio=ratio)
            scaled = tf.maximum(window // ratio, [0, 0, 1, 1])  # in pixels of the scaled image
            return tf.io.decode_and_crop_jpeg(encoded, scaled, channels=channels, ratio=ratio)

        room = tf.minimum(window[2], window[3]) // size
        scales = [(room >= 8, lambda: decode(8)), (room >= 4, lambda: decode(4)), (room >= 2, lambda: decode(2))]
        return tf.case(scales, default=lambda: decode(1))

    return tf.image.resize(tf.cond(tf.io.is_jpeg(encoded), jpeg, png), (size, size))


def central_window(height: tf.Tensor, width: tf.Tensor) -> tf.Tensor:
    """Return a central square, CENTRAL_FRACTION of the shorter side: (top, left, height, width), int32, in pixels."""
    import tensorflow as tf

    side = tf.cast(tf.round(CENTRAL_FRACTION * tf.cast(tf.minimum(height, width), tf.float32)), tf.int32)
    return tf.stack([(height - side) // 2, (width - side) // 2, side, side])


def decoder(config: RunConfig, *, training: bool) -> Callable[[tf.Tensor, tf.Tensor], tf.Tensor]:
    """Return a function from an encoded image and its draws to pixels: (size, size, channels), float32, 0 to 255.

    It stretches the whole image; if the augmentation crops, a random window, and in validation the central one.
    """
    size, channels, augmentation = config.model.image_size, config.dataset.channels, config.dataset.augmentation
    smallest_area = augmentation.crop_area_fraction if augmentation else 1.0
    if smallest_area == 1.0:
        return lambda encoded, numbers: read_image(encoded, size, channels)
    if training:
        return lambda encoded, numbers: read_image(
            encoded, size, channels, partial(crop_window, numbers, smallest_area)
        )
    return lambda encoded, numbers: read_image(encoded, size, channels, central_window)
